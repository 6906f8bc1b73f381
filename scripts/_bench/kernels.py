"""Time of each stage of the codec, from the Go benchmarks of its rooms, for each set of kernels."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import _environment

from . import report

ROOMS = ("transform", "model", "rans")
KERNELS = ("generic", "avx2", "avx512", "neon")
COUNT = 5
UNITS = ("ns/value", "x-memcpy")
LINE = re.compile(r"^Benchmark(\S+)\s+\d+\s+(.*)$", re.MULTILINE)

Stages = dict[str, dict[str, dict[str, float]]]
"""The best of several runs, by stage, set of kernels and unit."""


def run() -> Stages:
    """Run the benchmarks that report ns a value, and print them by stage and set of kernels."""
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for room in ROOMS:
        for name, metrics in LINE.findall(benchmarks(room)):
            stage, _, kernels = name.rpartition("/")
            key = (f"{room} {stage}", kernels) if kernels in KERNELS else (f"{room} {name}", "generic")
            fields = metrics.split()
            found = {unit: float(value) for value, unit in zip(fields[::2], fields[1::2], strict=True)}
            if "ns/value" in found:
                runs.setdefault(key, []).append(found)
    stages: Stages = {}
    for (stage, kernels), several in runs.items():
        best = {unit: min(one[unit] for one in several) for unit in UNITS if unit in several[0]}
        stages.setdefault(stage, {})[kernels] = best
    show(stages)
    return stages


def benchmarks(room: str) -> str:
    command = ["go", "test", "-run=^$", "-bench=.", "-benchtime=50ms", f"-count={COUNT}", "-cpu=1"]
    env = {**os.environ, **_environment.go_environment()}
    result = subprocess.run(
        [*command, f"./go/internal/{room}"], cwd=_environment.ROOT, env=env, capture_output=True, text=True
    )
    if result.returncode:
        raise SystemExit(f"the benchmarks of {room} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def show(stages: Stages) -> None:
    megahertz = nominal_megahertz()
    sets = [kernels for kernels in KERNELS if any(kernels in found for found in stages.values())]
    rows: list[tuple[Any, ...]] = []
    for stage, found in stages.items():
        best = min(found.values(), key=lambda units: units["ns/value"])
        times = (f"{found[kernels]['ns/value']:.3f}" if kernels in found else "-" for kernels in sets)
        cycles = f"{best['ns/value'] * megahertz / 1000:.2f}" if megahertz else "-"
        rows.append((stage, *times, cycles, f"{best['x-memcpy']:.1f}" if "x-memcpy" in best else "-"))
    report.table(
        f"ns a value, one thread, best of {COUNT} runs; of the best kernels also cycles at {megahertz:.0f} MHz, "
        "and the time in copies of as many bytes by memcpy",
        ("stage",),
        (*sets, "cycles", "memcpys"),
        rows,
    )


def nominal_megahertz() -> float:
    """What the system says about the clock; 0 if it says nothing."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", info.read_text(), re.MULTILINE) if info.exists() else None
    return float(found[1]) if found else 0.0
