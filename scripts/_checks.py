"""What scripts/check runs."""

from __future__ import annotations

import sys

import _steps

STATICCHECK = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"
PYTHON_FILES = ("python", "tests", "setup.py", "scripts")
OTHER_MACHINES = (("linux", "amd64"), ("linux", "arm64"), ("darwin", "arm64"))


def check(steps: _steps.Steps) -> None:
    steps.run("gofmt", "gofmt", "-l", "go", "capi", silent_is_success=True)
    steps.run("go.mod is tidy", "go", "mod", "tidy", "-diff")
    steps.run("go vet", "go", "vet", "./...")
    steps.run("go vet, purego", "go", "vet", "-tags=purego", "./...")
    for goos, goarch in OTHER_MACHINES:  # without cgo, so without capi: the C compiler is this machine's
        steps.run(f"go vet, {goos}/{goarch}", "go", "vet", "./go/...", CGO_ENABLED="0", GOOS=goos, GOARCH=goarch)
    steps.run("staticcheck", "go", "run", STATICCHECK, "./...")
    steps.run("staticcheck, purego", "go", "run", STATICCHECK, "-tags=purego", "./...")
    steps.run("assembly is what its generators make", "scripts/asm", "--check")
    steps.run("ruff check", sys.executable, "-m", "ruff", "check", *PYTHON_FILES)
    steps.run("ruff format", sys.executable, "-m", "ruff", "format", "--check", *PYTHON_FILES)
    steps.run("mypy", sys.executable, "-m", "mypy")
