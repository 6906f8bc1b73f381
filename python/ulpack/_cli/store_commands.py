"""The commands for stores (trajectories) and their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .output import reporting

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is already there.")]
Threads = Annotated[Optional[int], typer.Option("--threads", "-t", help="Threads; default: all processors.")]  # noqa: UP045
Store = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--store", "-s", metavar="STORE", help="The store; default: this folder, or the folder trajectory in it."
    ),
]
StoreArgument = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Argument(metavar="STORE", help="The store; default: this folder, or the folder trajectory in it."),
]
Step = Annotated[
    str, typer.Argument(metavar="STEP", help="A step, latest, best:METRIC (best:METRIC:max), a tag, or an id.")
]
Paths = Annotated[list[Path], typer.Argument(metavar="PATH..", help="Checkpoint files or folders.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (log, add, discard, checkout, prune, fold, why, du, plot):
        app.command()(command)


def log(store: StoreArgument = None, as_json: Json = False) -> None:
    """List the steps of a store: what each is, what it cost, and what loading it costs."""
    from .store_log import log as run

    with reporting(as_json, slow=False):
        run(store, as_json)


def add(
    paths: Paths,
    store: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--store", "-s", metavar="STORE", help="The store; default: trajectory beside the first path."),
    ] = None,
    step: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--step", help="The step of a single path; default: recorded in it, or the last number in its name."
        ),
    ] = None,
    tag: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--tag", help="A tag for the steps. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace steps that are there with other contents.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read everything back before it appears.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Put checkpoint files and folders into a store, in the order of their steps. Nothing is deleted."""
    from .store_add import add as run

    with reporting(as_json):
        run(paths, store, step, tag or [], force, verify, threads, as_json)


def discard(
    paths: Paths,
    store: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--store", "-s", metavar="STORE", help="The store; default: trajectory beside the first path."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it only say what would go.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Delete checkpoints that are in a store, each only after every byte of it was decoded and compared."""
    from .store_add import discard as run

    with reporting(as_json):
        run(paths, store, yes, threads, as_json)


def checkout(
    step: Step,
    store: Store = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out", "-o", metavar="OUT", help="What is made; default: checkpoint-STEP, or the file's own name."
        ),
    ] = None,
    format: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--format", help="original, safetensors, torch or ulp; default: what suits the step."),
    ] = None,
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write a step to files that need no store: what was added comes back byte for byte."""
    from .store_checkout import checkout as run

    with reporting(as_json):
        run(step, store, out, format, force, threads, as_json)


def prune(
    store: StoreArgument = None,
    keep_last: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--keep-last", metavar="N", help="The last N steps."),
    ] = None,
    keep_every: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--keep-every", metavar="N", help="Steps that are multiples of N."),
    ] = None,
    keep_best: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--keep-best", metavar="METRIC[=N]", help="The best step, or the N best. Repeatable."),
    ] = None,
    drop_tagged: Annotated[bool, typer.Option("--drop-tagged", help="Tagged steps may go, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would go.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Remove all steps but those that a rule keeps and the latest. Steps that stay never break."""
    from .store_prune import prune as run

    with reporting(as_json):
        run(store, keep_last, keep_every, keep_best or [], not drop_tagged, dry_run, threads, as_json)


def fold(step: Step = "latest", store: Store = None, threads: Threads = None, as_json: Json = False) -> None:
    """Store a step again so that it needs no other one."""
    from .store_prune import fold as run

    with reporting(as_json):
        run(step, store, threads, as_json)


def why(step: Step, store: Store = None, as_json: Json = False) -> None:
    """Say what needs a step, and what it needs."""
    from .store_log import why as run

    with reporting(as_json, slow=False):
        run(step, store, as_json)


def du(store: StoreArgument = None, as_json: Json = False) -> None:
    """Show where the bytes of a store are."""
    from .store_log import du as run

    with reporting(as_json, slow=False):
        run(store, as_json)


def plot(
    store: StoreArgument = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PNG", help="The picture.")] = Path("trajectory.png"),
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Draw a store: bytes a step, share of changed weights by tensor and step, rate of zero crossings."""
    from .store_plot import plot as run

    with reporting(as_json):
        run(store, out, force, threads, as_json)
