"""What the figures were measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

import ulpack

from .codecs import ALL, Missing


def describe(codecs: list[str]) -> dict[str, Any]:
    """Machine, versions, and which codecs are missing."""
    versions, missing = {}, {}
    for name in codecs:
        try:
            versions[name] = ALL[name].version()
        except Missing as reason:
            missing[name] = str(reason)
    backend = ulpack.backend()
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "load": load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "backend": {"name": backend.name, **backend.details},
        "versions": {
            **versions,
            **{name: importlib.metadata.version(name) for name in ("numpy", "torch")},
        },
        "missing": missing,
        "command": ["scripts/bench", *sys.argv[1:]],
    }


def load() -> float | None:
    """Programs that want a processor, on average over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                family = [
                    text.split(":")[1].strip()
                    for text in info.read_text().splitlines()
                    if text.startswith("cpu family")
                ]
                return (
                    f"{line.split(':', 1)[1].strip()} (family {family[0]})" if family else line.split(":", 1)[1].strip()
                )
    return platform.processor() or platform.machine()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
