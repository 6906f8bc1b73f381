"""The tables of the README, from results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .measure import Result

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SIZES = ("ulpack", "fm-delta", "zstd-19", "zstd-3", "zipnn")
SPEEDS = ("ulpack", "zipnn", "zstd-3")
CLOCKS = {"wall": "wall clock", "cpu": "processor"}


def split(path: Path) -> tuple[str, str]:
    """The text before and after the marks of a Markdown file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the marks {BEGIN} and {END}")
    return before, after


def write(path: Path, results: list[Result], info: dict[str, Any]) -> None:
    """Put the tables between the marks of a Markdown file."""
    before, after = split(path)
    path.write_text(f"{before}{BEGIN}\n{tables(results, info)}{END}{after}", encoding="utf-8")


def tables(results: list[Result], info: dict[str, Any]) -> str:
    """Sizes, then speeds with one thread and with all."""
    by_pair: dict[str, dict[tuple[str, str], Result]] = {}
    for result in results:
        if not result.part and result.nbytes and not result.problem:
            by_pair.setdefault(result.pair, {})[result.codec, result.threads] = result
    counts = list(dict.fromkeys(result.threads for result in results))
    backend, cores = info["backend"], info["cores"]
    lines = [
        f"{info['cpu']}, {cores} core{'s' if cores != 1 else ''}, kernels {backend.get('kernels', 'none')}; "
        + ", ".join(f"{name} {version}" for name, version in info["versions"].items() if name not in ("numpy", "files"))
        + ".",
        "",
        "The second checkpoint of a pair stored against the first, percent of its raw size; in brackets bits a weight:",
        "",
        *grid(["pair", "raw bytes", *SIZES], [size_row(pair, found) for pair, found in by_pair.items()]),
        "",
        "GB/s of raw bytes, encode / decode:",
        "",
        *grid(
            ["pair", *(f"{codec}, {count}" for count in counts for codec in SPEEDS)],
            [
                [pair, *(speed(found.get((codec, count))) for count in counts for codec in SPEEDS)]
                for pair, found in by_pair.items()
            ],
        ),
        "",
        f"The number after a name is that of threads. Medians of {info['runs']} runs in {CLOCKS[info['clock']]} time; "
        f"load of the machine before and after: {info['load']} and {info['load_after']}. Command: `scripts/bench "
        f"CORPUS --runs {info['runs']} --clock {info['clock']} --threads {info['threads']} --markdown README.md`.",
    ]
    return "\n".join(lines) + "\n"


def grid(head: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def size_row(pair: str, found: dict[tuple[str, str], Result]) -> list[str]:
    sizes = {codec: result for (codec, _), result in reversed(found.items())}  # that of one thread counts
    cells = [f"{next(iter(sizes.values())).raw_nbytes:,}"]
    for codec in SIZES:
        one = sizes.get(codec)
        cells.append(f"{100 * one.nbytes / one.raw_nbytes:.2f} ({one.bits_per_weight:.2f})" if one else "-")
    return [pair, *cells]


def speed(result: Result | None) -> str:
    return f"{result.encode_speed:.2f} / {result.decode_speed:.2f}" if result and result.encode_speed else "-"
