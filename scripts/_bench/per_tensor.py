"""The tensors that another way of storing them makes smaller."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ulpack

from . import paper_model, report
from .codecs import ALL, NotForThis
from .codecs.codec import Settings
from .pairs import Data, Pair

SLACK, PEER_SLACK = {"stored": 16, "paper": 0}, 32
PEERS = ("zipnn", "zstd-19", "fm-delta")


def losses(pairs: list[Pair], peers: list[str], effort: str) -> list[dict[str, Any]]:
    """Every tensor of every pair whose blob is larger than stored + 16, the paper's model, or a peer's + 32 bytes."""
    found: list[dict[str, Any]] = []
    tensors = 0
    for pair in pairs:
        data = pair.load()
        with tempfile.TemporaryDirectory() as folder:
            info = ulpack.save_delta(data.target, Path(folder) / "pair.ulp", reference=data.reference, effort=effort)
        for saved in info.tensors:
            tensors += 1
            sizes: dict[str, float | None] = {"stored": saved.raw_nbytes, "paper": paper_model.nbytes(data, saved.name)}
            sizes |= {name: size_of(name, data.single(saved.name)) for name in peers}
            limits = {name: size + SLACK.get(name, PEER_SLACK) for name, size in sizes.items() if size is not None}
            lowest = min(limits, key=lambda name: limits[name])
            if saved.nbytes > limits[lowest]:
                row = {"pair": pair.name, "tensor": saved.name, "plan": saved.plan, "loses_to": lowest}
                over = {"limit": round(limits[lowest]), "by": saved.nbytes - round(limits[lowest])}
                found.append({**row, **over, "raw_nbytes": saved.raw_nbytes, "nbytes": saved.nbytes, "sizes": sizes})
    show(found, tensors, len(pairs), peers)
    return found


def size_of(codec: str, data: Data) -> int | None:
    """Bytes of one tensor in the hands of a peer; None if it does not take it."""
    try:
        session = ALL[codec].prepare(data, Settings())
        session.before_encode()
        session.encode()
        return session.nbytes()
    except NotForThis:
        return None


def show(found: list[dict[str, Any]], tensors: int, pairs: int, peers: list[str]) -> None:
    against = ", ".join(["stored + 16", "the paper's model", *(f"{name} + 32" for name in peers)])
    if not found:
        report.console.print(f"none of {tensors} tensors in {pairs} pairs is larger than {against}")
        return
    rows = (
        (
            row["pair"],
            row["tensor"],
            row["plan"],
            row["loses_to"],
            f"{row['raw_nbytes']:,}",
            f"{row['nbytes']:,}",
            f"{row['by']:,}",
        )
        for row in sorted(found, key=lambda row: -row["by"])
    )
    report.table(
        f"{len(found)} of {tensors} tensors in {pairs} pairs are larger than one of {against}",
        ("pair", "tensor", "plan", "limit is"),
        ("raw", "ulpack", "over by"),
        rows,
    )
