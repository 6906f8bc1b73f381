"""Files of ulpack against a column of a table of sizes."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ulpack

from . import report
from .pairs import Pair, raw

FILE_ALLOWANCE, TENSOR_ALLOWANCE = 256, 64
"""Bytes that a file may add for its index, names and fingerprints."""


def compare(pairs: list[Pair], table: Path, column: str, effort: str) -> list[dict[str, Any]]:
    """Save and load every pair that the table lists, and compare the file, less the allowance, with the column."""
    with open(table, newline="") as file:
        listed = {(row["pair"], row["from"], row["to"]): row for row in csv.DictReader(file)}
    if listed and column not in next(iter(listed.values())):
        raise SystemExit(f"{table} has no column {column}")
    rows = []
    for pair in pairs:
        entry = listed.get(pair.key)
        if entry and entry[column]:
            rows.append(row_for(pair, float(entry[column]), effort))
    report.table(
        f"files of ulpack against {column} of {table.name}",
        ("pair", ""),
        ("bytes", "less allowance", column, "ratio"),
        (
            (
                row["pair"],
                row["verdict"],
                f"{row['nbytes']:,}",
                f"{row['net']:,}",
                f"{row['limit']:,.0f}",
                f"{row['ratio']:.4f}",
            )
            for row in rows
        ),
    )
    return rows


def row_for(pair: Pair, limit: float, effort: str) -> dict[str, Any]:
    data = pair.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.ulp"
        nbytes = ulpack.save_delta(data.target, path, reference=data.reference, effort=effort).nbytes
        back = ulpack.load_delta(path, reference=data.reference)
    exact = list(back) == list(data.target) and all(
        back[name].dtype == tensor.dtype
        and back[name].shape == tensor.shape
        and np.array_equal(raw(back[name]), raw(tensor))
        for name, tensor in data.target.items()
    )
    net = nbytes - FILE_ALLOWANCE - TENSOR_ALLOWANCE * len(data.target)
    verdict = "NOT EXACT" if not exact else "over" if net > limit else ""
    return {
        "pair": pair.name,
        "nbytes": nbytes,
        "net": net,
        "limit": limit,
        "ratio": net / limit,
        "exact": exact,
        "verdict": verdict,
    }
