"""Runs named commands, all of them, and says at the end which failed."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Steps:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def run(self, name: str, *command: str, silent_is_success: bool = False, **env: str) -> None:
        """Run a command in the project's root. With `silent_is_success` any output is a failure too (gofmt -l)."""
        settings = "".join(f"{key}={shlex.quote(value)} " for key, value in env.items())
        print(f"\n== {name}: {settings}{shlex.join(command)}", flush=True)
        start = time.monotonic()
        stdout = subprocess.PIPE if silent_is_success else None
        result = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdout=stdout, text=True)
        if result.stdout:
            print(result.stdout, end="")
        bad = bool(result.returncode or result.stdout)
        if bad:
            self.failed.append(name)
        print(f"-- {'failed' if bad else 'ok'}, {time.monotonic() - start:.1f} s", flush=True)

    def finish(self) -> None:
        """End the program: with an error that lists the failed steps, if any."""
        if self.failed:
            raise SystemExit(f"\nFAILED: {', '.join(self.failed)}")
        print("\nall steps passed")
