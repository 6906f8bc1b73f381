"""The commands and their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .._backend import Options
from .._options import options
from .._progress import terminal_bar
from . import store_commands
from .output import reporting

app = typer.Typer(
    name="ulpack",
    help="Store checkpoints losslessly as small deltas.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is already there.")]
Threads = Annotated[Optional[int], typer.Option("--threads", "-t", help="Threads; default: all processors.")]  # noqa: UP045
Bases = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("--also", help="A further reference; each tensor takes the first that fits. Repeatable."),
]


def _options(threads: int | None, effort: str | None, quiet: bool, label: str) -> Options:
    made = options(threads, None, effort)
    return made if quiet else made._replace(progress=terminal_bar(label))


def _version(wanted: bool) -> None:
    if wanted:
        from .info import versions

        with reporting(False, slow=False):
            print(versions())
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show versions and the kernels in use.")
    ] = False,
) -> None:
    pass


@app.command()
def diff(
    base: Annotated[Path, typer.Argument(metavar="A", help="The reference: what the reader will have.")],
    target: Annotated[Path, typer.Argument(metavar="B", help="The checkpoint to store.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="D", help="The delta file to write.")],
    also: Bases = None,
    force: Force = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read the delta back before it appears.")] = False,
    effort: Annotated[Optional[str], typer.Option(help="fast, default or max.")] = None,  # noqa: UP045
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write what turns A into B: .safetensors files, folders of shards, torch files, or any other files."""
    from .transfer import diff as run_diff

    with reporting(as_json):
        run_diff(target, out, [base, *(also or [])], _options(threads, effort, as_json, "diff"), force, verify, as_json)


@app.command()
def pack(
    target: Annotated[Path, typer.Argument(metavar="B", help="The checkpoint to store.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="D", help="The file to write.")],
    force: Force = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read the file back before it appears.")] = False,
    effort: Annotated[Optional[str], typer.Option(help="fast, default or max.")] = None,  # noqa: UP045
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write B without a reference: an anchor, which needs nothing to be read."""
    from .transfer import diff as run_diff

    with reporting(as_json):
        run_diff(target, out, [], _options(threads, effort, as_json, "pack"), force, verify, as_json)


@app.command()
def apply(
    base: Annotated[Path, typer.Argument(metavar="A", help="The reference that the delta was made against.")],
    delta: Annotated[Path, typer.Argument(metavar="D", help="The delta file.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="B", help="Where the checkpoint goes.")],
    also: Bases = None,
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write B again, byte for byte, from A and a delta."""
    from .transfer import apply as run_apply

    with reporting(as_json):
        run_apply(delta, out, [base, *(also or [])], _options(threads, None, as_json, "apply"), force, as_json)


@app.command()
def unpack(
    delta: Annotated[Path, typer.Argument(metavar="D", help="The file that pack wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="B", help="Where the checkpoint goes.")],
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write B again, byte for byte, from an anchor."""
    from .transfer import apply as run_apply

    with reporting(as_json):
        run_apply(delta, out, [], _options(threads, None, as_json, "unpack"), force, as_json)


@app.command()
def info(
    delta: Annotated[Path, typer.Argument(metavar="D", help="A delta file.")],
    as_json: Json = False,
) -> None:
    """Show what is in a delta file: for each tensor its plan, its bits per weight and its share of the file."""
    from .info import info as run_info

    with reporting(as_json, slow=False):
        run_info(delta, as_json)


@app.command()
def verify(
    delta: Annotated[Path, typer.Argument(metavar="D", help="A delta file, or a store.")],
    reference: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--reference", "-r", metavar="A", help="Its reference. Repeatable."),
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Check a delta file; with its reference, decode every tensor and compare fingerprints. Or check a whole store."""
    from .verify import verify as run_verify

    with reporting(as_json):
        if (delta / "trajectory.json").is_file():
            from .store_verify import verify as verify_store

            verify_store(delta, _options(threads, None, as_json, "verify"), as_json)
            return
        run_verify(delta, reference or [], _options(threads, None, as_json, "verify"), as_json)


@app.command()
def cat(
    delta: Annotated[Path, typer.Argument(metavar="D", help="A delta file.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a tensor in it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where it goes: x.npy, x.safetensors, or raw bytes.")],
    reference: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--reference", "-r", metavar="A", help="The delta's reference. Repeatable."),
    ] = None,
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write one tensor of a delta file to a file of its own."""
    from .cat import cat as run_cat

    with reporting(as_json):
        run_cat(delta, name, out, reference or [], _options(threads, None, as_json, "cat"), force, as_json)


store_commands.register(app)
