"""Tables on the terminal."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .measure import Result

# Off a terminal rich would cut the tables at 80 columns.
console = Console(width=None if sys.stdout.isatty() else max(shutil.get_terminal_size().columns, 140), highlight=False)


def table(
    title: str, left: Iterable[str], right: Iterable[str], rows: Iterable[Iterable[str]], note: str | None = None
) -> None:
    """Print rows: columns of text, columns of numbers, and perhaps one of notes."""
    console.print(title, style="bold", markup=False)
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for name in left:
        shown.add_column(name, no_wrap=True)
    for name in right:
        shown.add_column(name, justify="right", no_wrap=True)
    if note:
        shown.add_column(note)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    console.print()


def machine(info: dict[str, Any]) -> None:
    backend = info["backend"]
    kernels = backend.get("kernels", "")
    kernels = kernels if isinstance(kernels, str) else ", ".join(map(str, kernels))
    console.print(f"{info['cpu']}, {info['cores']} cores, {info['system']}, load {info['load']}", markup=False)
    console.print(f"ulpack: {backend['name']} backend{', kernels: ' + kernels if kernels else ''}", markup=False)
    console.print(", ".join(f"{name} {version}" for name, version in info["versions"].items()), markup=False)
    if info["clock"] == "cpu":
        console.print("times are processor time, not wall time")
    for reason in info["missing"].values():
        console.print(f"missing: {reason}", style="yellow", markup=False)
    console.print()


def pair(results: list[Result]) -> None:
    """One pair, one number of threads."""
    one = results[0]
    threads = "one thread" if one.threads == "1" else f"{one.threads} threads"
    title = f"{one.pair}{' ' + one.part if one.part else ''}: {one.raw_nbytes:,} bytes, {one.kind}, {threads}"
    rows = []
    for result in results:
        note = result.problem or (f"{result.stored:,} bytes stored" if result.stored else "")
        if not result.nbytes:
            rows.append((result.codec, "", "", "", "", "", note))
            continue
        size = (f"{result.nbytes:,}", f"{result.bits_per_weight:.3f}", f"{100 * result.nbytes / result.raw_nbytes:.2f}")
        rows.append((result.codec, *size, speed(result.encode_speed), speed(result.decode_speed), note))
    table(title, ("codec",), ("bytes", "bits/weight", "% of raw", "encode GB/s", "decode GB/s"), rows, note="note")


def speed(value: float) -> str:
    if not value:
        return "-"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def ratios(results: list[Result]) -> list[dict[str, Any]]:
    """ulpack's speed over the peers', for each pair with one thread, and the geometric mean of each kind."""
    by_pair: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        if result.threads == "1" and result.encode_speed and not result.problem:
            by_pair.setdefault((result.pair, result.part), {})[result.codec] = result
    rows = []
    for (name, part), codecs in by_pair.items():
        ours = codecs.get("ulpack")
        if ours is None:
            continue
        row: dict[str, Any] = {"kind": ours.kind, "pair": name, "part": part}
        for peer, verb in COMPARED:
            other = codecs.get(peer)
            row[f"{verb}/{peer}"] = getattr(ours, f"{verb}_speed") / getattr(other, f"{verb}_speed") if other else None
        rows.append(row)
    return sorted(rows, key=lambda row: row["kind"])


COMPARED = (("zipnn", "encode"), ("zipnn", "decode"), ("zstd-3", "encode"), ("zstd-3", "decode"))


def ratio_table(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    columns = [f"{verb}/{peer}" for peer, verb in COMPARED]
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        same = [row for row in rows if row["kind"] == kind]
        lines += [(kind, f"{row['pair']} {row['part']}".strip(), *(ratio(row[c]) for c in columns)) for row in same]
        if len(same) > 1:
            means = (ratio(mean([row[c] for row in same if row[c]])) for c in columns)
            lines.append((f"[bold]{kind}", "[bold]geometric mean", *means))
    table("ulpack's speed over the peer's, one thread, medians", ("kind", "pair"), columns, lines)


def scaling(results: list[Result]) -> list[dict[str, Any]]:
    """How much faster each codec is with all threads than with one; prints it for ulpack."""
    one = {(result.pair, result.part, result.codec): result for result in results if result.threads == "1"}
    rows = []
    for result in results:
        single = one.get((result.pair, result.part, result.codec))
        if single is None or result.threads == "1" or not result.encode_speed or not single.encode_speed:
            continue
        gains = {verb: getattr(result, f"{verb}_speed") / getattr(single, f"{verb}_speed") for verb in VERBS}
        rows.append(
            {"pair": result.pair, "part": result.part, "codec": result.codec, "threads": result.threads, **gains}
        )
    ours = [row for row in rows if row["codec"] == "ulpack"]
    if ours:
        lines = ((f"{row['pair']} {row['part']}".strip(), *(ratio(row[verb]) for verb in VERBS)) for row in ours)
        table(f"ulpack's speed with {ours[0]['threads']} threads over its speed with one", ("pair",), VERBS, lines)
    return rows


VERBS = ("encode", "decode")


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def mean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
