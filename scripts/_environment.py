"""The project's own Python environment (``.venv``, or where ``ULPACK_VENV`` points) and its toolchain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(os.environ.get("ULPACK_VENV") or ROOT / ".venv").absolute()
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

sys.path.insert(0, str(ROOT / "python"))  # for this import only: everything else uses the installed package
from _build import native  # noqa: E402

sys.path.pop(0)


def enter() -> None:
    """Make the environment if there is none, and go on as its Python."""
    if Path(sys.prefix).resolve() == VENV.resolve():
        return
    if not PYTHON.exists() or subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        _create()
    result = subprocess.run([PYTHON, *sys.argv]) if os.name == "nt" else os.execv(PYTHON, [str(PYTHON), *sys.argv])
    raise SystemExit(result.returncode)


def _create() -> None:
    """The standard venv; virtualenv where the system's Python comes without ensurepip."""
    attempts = [["-m", "venv", "--clear"], ["-m", "virtualenv", "--clear"]]
    for attempt in attempts:
        if subprocess.run([sys.executable, *attempt, VENV]).returncode == 0:
            return
    shutil.rmtree(VENV, ignore_errors=True)
    raise SystemExit(
        f"cannot make an environment at {VENV}: install Python's venv (Debian: python3-venv) or virtualenv"
    )


def install(*extras: str) -> None:
    """Install the project as it stands, with these extras, and Go and zig where the machine lacks its own."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    missing = native.missing_tools()
    if missing:
        _run([*pip, *missing])
    os.environ.update(go_environment())
    _run([*pip, f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)])


def go_environment() -> dict[str, str]:
    """What `go` commands and C compilations need: the right go first on the PATH, CC, and no other toolchain."""
    tools = native.toolchain()
    path = os.pathsep.join([str(Path(tools.go).parent), str(PYTHON.parent), os.environ.get("PATH", "")])
    return {
        "CC": " ".join(map(native.quoted, tools.cc)),
        "CGO_ENABLED": "1",
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": path,
    }


def _run(command: list[str]) -> None:
    if subprocess.run(command).returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
