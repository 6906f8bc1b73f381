"""The project's own Python environment (``.venv``, or where ``ULPACK_VENV`` points) and its toolchain."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
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
        say(f"making a Python environment in {VENV}")
        _create()
    result = subprocess.run([PYTHON, *sys.argv]) if os.name == "nt" else os.execv(PYTHON, [str(PYTHON), *sys.argv])
    raise SystemExit(result.returncode)


def _create() -> None:
    """The standard venv; virtualenv where the system's Python comes without ensurepip, fetched if pip is there."""
    with tempfile.TemporaryDirectory() as fetched:
        search = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [fetched, os.environ.get("PYTHONPATH")]))}
        for arguments in (
            ["-m", "venv", "--clear", VENV],
            ["-m", "virtualenv", "--clear", VENV],
            ["-m", "pip", "install", "--quiet", "--target", fetched, "virtualenv"],
            ["-m", "virtualenv", "--clear", VENV],
        ):
            done = subprocess.run([sys.executable, *arguments], env=search).returncode == 0
            if done and "pip" not in arguments:
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
        say(f"installing {' and '.join(missing)}, which this machine lacks")
        _run([*pip, *missing])
    os.environ.update(go_environment())
    project = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    what = f" and what [{', '.join(extras)}] needs" if extras else ""
    first = importlib.util.find_spec("torch") is None
    say(f"building and installing ulpack{what}{': a download of several GB' if first and extras else ''}")
    _run([*pip, project])


def say(doing: str) -> None:
    """Tell what is being done: pip is quiet, and takes minutes."""
    print(f"{doing} ...", file=sys.stderr, flush=True)


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
