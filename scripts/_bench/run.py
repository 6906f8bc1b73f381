"""scripts/bench once its environment is there."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from . import kernels, machine, markdown, measure, per_tensor, report, sizes
from .codecs import ALL
from .codecs.codec import Settings
from .measure import Result
from .pairs import Pair, find


def main(chosen: argparse.Namespace) -> int:
    """Returns the exit status: 1 if anything was not exact, or larger than it may be."""
    if chosen.markdown:
        markdown.split(chosen.markdown)  # better now than after the measurement
    info = {**machine.describe(chosen.codecs), "runs": chosen.runs, "clock": chosen.clock, "threads": chosen.threads}
    record: dict[str, Any] = {"machine": info}
    report.machine(info)
    if chosen.kernels:
        record["kernels"] = kernels.run()
        failed = False
    else:
        pairs, without = find(chosen.corpus, chosen.only)
        if without:
            report.console.print(f"no pair of .safetensors files in {', '.join(without)}\n", markup=False)
        failed = compare(chosen, [name for name in chosen.codecs if name not in info["missing"]], pairs, record)
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(failed)


def compare(chosen: argparse.Namespace, present: list[str], pairs: list[Pair], record: dict[str, Any]) -> bool:
    failed = False
    if chosen.per_tensor:
        peers = [name for name in per_tensor.PEERS if name in present]
        record["per_tensor"] = per_tensor.losses(pairs, peers, chosen.effort)
        failed |= bool(record["per_tensor"])
    if chosen.sizes:
        record["sizes"] = sizes.compare(pairs, chosen.sizes, chosen.column, chosen.effort)
        failed |= any(row["verdict"] for row in record["sizes"])
    if not chosen.per_tensor and not chosen.sizes:
        results = time(chosen, present, pairs)
        record["machine"]["load_after"] = machine.load()
        record["results"] = [result.record() for result in results]
        record["ratios"] = report.ratios(results)
        report.ratio_table(record["ratios"])
        record["scaling"] = report.scaling(results)
        if chosen.markdown:
            markdown.write(chosen.markdown, results, record["machine"])
        failed |= any(result.problem == "NOT EXACT" or result.problem.startswith("failed") for result in results)
    return failed


def time(chosen: argparse.Namespace, present: list[str], pairs: list[Pair]) -> list[Result]:
    measure.keep_memory()
    shared = Path("/dev/shm")
    place = chosen.scratch or (shared if shared.is_dir() else None)
    results = []
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        for pair in pairs:
            whole = pair.load()
            for data in (whole, *whole.parts(chosen.parts)):
                for threads in {"one": [1], "all": [0], "both": [1, 0]}[chosen.threads]:
                    codecs = [ALL[name] for name in present if threads == 1 or ALL[name].threaded]
                    label = str(threads or machine.cores())
                    settings = Settings(threads, chosen.effort, Path(scratch))
                    found = measure.measure(data, codecs, settings, label, chosen.runs, chosen.slow_runs, chosen.clock)
                    report.pair(found)
                    results += found
    return results
