"""Zstandard on the XOR with its bytes grouped by significance, the tensors of a dtype joined."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..pairs import Data
from .codec import Codec, Session, Settings, joined


class Zstd(Codec):
    package = "zstandard"

    def __init__(self, level: int, slow: bool = False) -> None:
        self.name = f"zstd-{level}"
        self.level = level
        self.slow = slow

    @property
    def threaded(self) -> bool:  # type: ignore[override]
        return not self.slow  # the reason is in scripts/bench --help

    def prepare(self, data: Data, settings: Settings) -> Session:
        module, threads = self.module(), 0 if settings.threads == 1 else (settings.threads or os.cpu_count())
        grouped = {}
        for dtype, names in data.dtypes.items():
            size = data.target[names[0]].element_size()
            grouped[dtype] = np.ascontiguousarray(joined(data, names).reshape(-1, size).T).reshape(-1)
        return ZstdSession(module.ZstdCompressor(level=self.level, threads=threads), module.ZstdDecompressor(), grouped)


class ZstdSession(Session):
    def __init__(self, compressor: Any, decompressor: Any, grouped: dict[str, np.ndarray]) -> None:
        self.compressor, self.decompressor, self.grouped = compressor, decompressor, grouped
        self.blobs: dict[str, bytes] = {}
        self.inputs: dict[str, np.ndarray] = {}
        self.out: dict[str, bytes] = {}

    def before_encode(self) -> None:
        self.inputs = {dtype: grouped.copy() for dtype, grouped in self.grouped.items()}

    def encode(self) -> None:
        self.blobs = {dtype: self.compressor.compress(data) for dtype, data in self.inputs.items()}

    def nbytes(self) -> int:
        return sum(map(len, self.blobs.values()))

    def before_decode(self) -> None:
        self.out = {}

    def decode(self) -> None:
        self.out = {dtype: self.decompressor.decompress(blob) for dtype, blob in self.blobs.items()}

    def exact(self) -> bool:
        return all(self.out[dtype] == grouped.data for dtype, grouped in self.grouped.items())
