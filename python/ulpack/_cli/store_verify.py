"""verify on a store."""

from __future__ import annotations

from pathlib import Path

import typer

from .._backend import Options
from ..trajectory import Trajectory
from .output import count, emit, exit_code, some


def verify(store: Path, opt: Options, as_json: bool) -> None:
    """Check a store and list which steps are good and what is wrong with the others."""
    report = Trajectory(store, threads=opt.threads or None).verify(progress=opt.progress)
    lines = [f"{store}: {count(len(report.good), 'step')} decoded and right"]
    if report.leftovers:
        lines.append(f"{count(len(report.leftovers), 'file')} that no step needs: {some(report.leftovers)}")
    for step, errors in report.bad.items():
        lines += [f"step {step}: {error.kind}: {error}" for error in errors.values()]
    record = {
        "path": report.path,
        "ok": report.ok,
        "good": list(report.good),
        "bad": {
            str(step): {name: {"kind": error.kind, "message": str(error)} for name, error in errors.items()}
            for step, errors in report.bad.items()
        },
        "leftovers": list(report.leftovers),
    }
    emit(as_json, record, "\n".join(lines))
    for errors in report.bad.values():
        for error in errors.values():
            raise typer.Exit(exit_code(error))
