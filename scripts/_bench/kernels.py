"""Time of each stage of the codec, from the Go benchmarks of its rooms, for each set of kernels."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import _environment

from . import report

ROOMS = ("transform", "model", "rans")
KERNELS = ("generic", "avx2", "avx512", "neon")
COUNT = 5
LINE = re.compile(r"^Benchmark(?P<name>\S+?)(?:-\d+)?\s+\d+\s.*?(?P<ns>[\d.]+) ns/value", re.MULTILINE)
MEMCPY = "transform Memcpy"


def run() -> dict[str, dict[str, float]]:
    """ns a value, by stage and set of kernels; medians of several runs. Prints them, as cycles too, beside memcpy."""
    found: dict[str, dict[str, float]] = {}
    sets = [kernels for kernels in KERNELS if available(kernels)]
    for kernels in sets:
        for stage, ns in benchmarks(kernels).items():
            found.setdefault(stage, {})[kernels] = ns
    show(found, sets)
    return found


def go(kernels: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        **_environment.go_environment(),
        "ULPACK_KERNELS": kernels,
        "ULPACK_TEST_REQUIRE_KERNELS": kernels,
    }
    return subprocess.run(["go", "test", *arguments], cwd=_environment.ROOT, env=env, capture_output=True, text=True)


def available(kernels: str) -> bool:
    """Whether this machine has a set of kernels: the room that chooses them has a test that says so."""
    return go(kernels, "-count=1", "-run=^TestRequiredKernels$", "./go/internal/cpu").returncode == 0


def benchmarks(kernels: str) -> dict[str, float]:
    runs: dict[str, list[float]] = {}
    for room in ROOMS:
        result = go(
            kernels, "-run=^$", "-bench=.", "-benchtime=50ms", f"-count={COUNT}", "-cpu=1", f"./go/internal/{room}"
        )
        if result.returncode:
            raise SystemExit(f"the benchmarks of {room} failed:\n{result.stdout}{result.stderr}")
        for match in LINE.finditer(result.stdout):
            runs.setdefault(f"{room} {match['name']}", []).append(float(match["ns"]))
    return {stage: statistics.median(values) for stage, values in runs.items()}


def show(found: dict[str, dict[str, float]], sets: list[str]) -> None:
    megahertz = nominal_megahertz()
    rows: list[tuple[Any, ...]] = []
    for stage, by_kernels in found.items():
        best = min(by_kernels.values())
        copy = found.get(MEMCPY, {}).get(sets[-1], 0.0)
        cycles = f"{best * megahertz / 1000:.2f}" if megahertz else "-"
        times = (f"{by_kernels[k]:.3f}" if k in by_kernels else "-" for k in sets)
        rows.append((stage, *times, cycles, f"{best / copy:.1f}" if copy else "-"))
    report.table(
        f"ns a value, one thread, medians of {COUNT}; cycles at {megahertz:.0f} MHz; memcpy of 2-byte values",
        ("stage",),
        (*sets, "cycles, best", "times memcpy"),
        rows,
    )


def nominal_megahertz() -> float:
    """What the system says about the clock; 0 if it says nothing."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", info.read_text(), re.MULTILINE) if info.exists() else None
    return float(found[1]) if found else 0.0
