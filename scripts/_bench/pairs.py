"""Pairs of checkpoints: where they are, and their tensors in memory."""

from __future__ import annotations

import csv
import fnmatch
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

SIZES = "sizes.csv"


@dataclass(frozen=True)
class Pair:
    """Two files of one folder. `key` is how a table of sizes calls them: folder, step, step."""

    first: Path
    second: Path

    @property
    def key(self) -> tuple[str, str, str]:
        return self.first.parent.name, step(self.first), step(self.second)

    @property
    def name(self) -> str:
        folder, a, b = self.key
        return f"{folder} {a}->{b}"

    def load(self) -> Data:
        return Data(self.name, load(self.second), load(self.first))


def step(path: Path) -> str:
    return path.stem.removeprefix("step")


def load(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file in memory of their own: nothing of them is read from disk later."""
    return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}


def find(corpus: Path, only: list[str] | None) -> tuple[list[Pair], list[str]]:
    """The pairs of a corpus, and the folders of it that have none."""
    if not corpus.is_dir():
        raise SystemExit(f"no folder {corpus}: run scripts/demo first, or name a folder of checkpoint pairs")
    listed = listed_pairs(corpus / SIZES)
    pairs, without = [], []
    for folder in [corpus, *sorted(path for path in corpus.iterdir() if path.is_dir())]:
        files = sorted(folder.glob("*.safetensors"), key=lambda path: natural(path.name))
        found = [pair for pair in listed if pair.first.parent == folder] or [
            Pair(a, b) for a, b in itertools.pairwise(files)
        ]
        pairs += found
        if not found and folder != corpus:
            without.append(folder.name)
    if only:
        pairs = [pair for pair in pairs if any(fnmatch.fnmatch(pair.name, pattern) for pattern in only)]
    if not pairs:
        raise SystemExit(f"no pairs of .safetensors files in {corpus}")
    return pairs, without


def listed_pairs(table: Path) -> list[Pair]:
    if not table.exists():
        return []
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    folder = table.parent
    return [
        Pair(*(folder / row["pair"] / f"step{row[column]}.safetensors" for column in ("from", "to"))) for row in rows
    ]


def natural(text: str) -> list[tuple[int, str]]:
    """A sort key under which step9 comes before step10."""
    return [(int(part or 0), part) if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]


def raw(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, np.uint8)


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass
class Data:
    """A pair in memory, whole or a part of it."""

    name: str
    target: dict[str, torch.Tensor]
    reference: dict[str, torch.Tensor]
    part: str = ""
    raw_nbytes: int = field(init=False)
    weights: int = field(init=False)
    unchanged: float = field(init=False)

    def __post_init__(self) -> None:
        self.raw_nbytes = sum(tensor.nbytes for tensor in self.target.values())
        self.weights = sum(tensor.numel() for tensor in self.target.values())
        self.unchanged = sum(map(self._unchanged, self.target)) / max(self.weights, 1)

    def _unchanged(self, name: str) -> int:
        tensor, before = self.target[name], self.before(name)
        if before is None or not tensor.numel():
            return 0
        size = tensor.element_size()
        same = (raw(tensor).reshape(-1, size) == raw(before).reshape(-1, size)).all(axis=1)
        return int(np.count_nonzero(same))

    def before(self, name: str) -> torch.Tensor | None:
        """The reference of a tensor: the same name, dtype and shape."""
        before, tensor = self.reference.get(name), self.target[name]
        fits = before is not None and before.dtype == tensor.dtype and before.shape == tensor.shape
        return before if fits else None

    def xor(self, name: str) -> np.ndarray:
        """The XOR of a tensor with its reference; without one, the tensor."""
        before = self.before(name)
        return raw(self.target[name]).copy() if before is None else raw(self.target[name]) ^ raw(before)

    @property
    def dtypes(self) -> dict[str, list[str]]:
        """Names of the tensors of each dtype."""
        names: dict[str, list[str]] = {}
        for name, tensor in self.target.items():
            names.setdefault(dtype_name(tensor), []).append(name)
        return names

    @property
    def kind(self) -> str:
        """What the pair is made of, for the table of ratios."""
        sizes = {dtype: sum(self.target[name].nbytes for name in names) for dtype, names in self.dtypes.items()}
        main = max(sizes, key=lambda dtype: sizes[dtype])
        label = SHORT.get(main, main) if sizes[main] >= 0.95 * self.raw_nbytes else "mixed"
        if self.part:
            label += f" {self.part}"
        return label + (", mostly unchanged" if self.unchanged >= 0.9 else "")

    def parts(self, patterns: dict[str, str]) -> list[Data]:
        """Those parts of the pair that are neither empty nor all of it."""
        found = []
        for label, pattern in patterns.items():
            names = fnmatch.filter(self.target, pattern)
            if 0 < len(names) < len(self.target):
                found.append(Data(self.name, select(self.target, names), select(self.reference, names), label))
        return found

    def single(self, name: str) -> Data:
        return Data(self.name, select(self.target, [name]), select(self.reference, [name]), name)


def select(tensors: dict[str, torch.Tensor], names: Iterable[str]) -> dict[str, torch.Tensor]:
    return {name: tensors[name] for name in names if name in tensors}
