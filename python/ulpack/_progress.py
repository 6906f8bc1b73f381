"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from ._backend import Progress


def terminal_bar(description: str = "") -> Progress | None:
    """A callback that draws a bar on standard error, or None if that is not a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task: list[Any] = []

    def show(done: int, total: int) -> None:
        if not task:
            bar.start()
            task.append(bar.add_task(description, total=total))
        bar.update(task[0], completed=done)
        if done >= total:
            bar.stop()

    return show
