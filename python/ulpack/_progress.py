"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any

from ._backend import Progress


def terminal_bar(description: str = "ulpack") -> Progress | None:
    """A callback that draws a bar on standard error, or None if that is not a terminal that can move its cursor."""
    dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
    return _Bar(description) if sys.stderr.isatty() and not dumb else None


class _Bar:
    """A bar that appears with the first call and goes at the end; the backend closes it when its call fails."""

    def __init__(self, description: str) -> None:
        self._description = description
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._open(total)
        self._bar.update(self._task, completed=done)
        if done >= total:
            self.close()

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn(self._description, markup=False),
            BarColumn(),
            TaskProgressColumn(),
            DownloadColumn(binary_units=True),
            TimeRemainingColumn(),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
