"""ZipNN on the XOR, the tensors of a dtype joined."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..pairs import Data
from .codec import Codec, Session, Settings, joined, split_by_support

DTYPES = dict.fromkeys(("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"))


class ZipNN(Codec):
    name = "zipnn"
    package = "zipnn"

    def prepare(self, data: Data, settings: Settings) -> Session:
        taken, stored = split_by_support(data, DTYPES, "ZipNN")
        module, threads = self.module(), settings.threads or os.cpu_count()
        coders = {dtype: module.ZipNN(input_format="byte", bytearray_dtype=dtype, threads=threads) for dtype in taken}
        return ZipNNSession(coders, {dtype: joined(data, names) for dtype, names in taken.items()}, stored)


class ZipNNSession(Session):
    def __init__(self, coders: dict[str, Any], xors: dict[str, np.ndarray], stored: int) -> None:
        self.coders, self.xors, self.stored = coders, xors, stored
        self.inputs: dict[str, bytearray] = {}
        self.blobs: dict[str, bytes] = {}
        self.out: dict[str, bytearray] = {}

    def before_encode(self) -> None:
        # ZipNN rotates bits in its input: a fresh copy every time.
        self.inputs = {dtype: bytearray(xor) for dtype, xor in self.xors.items()}

    def encode(self) -> None:
        self.blobs = {dtype: coder.compress(self.inputs[dtype]) for dtype, coder in self.coders.items()}

    def nbytes(self) -> int:
        return self.stored + sum(map(len, self.blobs.values()))

    def before_decode(self) -> None:
        self.blobs = {dtype: bytes(bytearray(blob)) for dtype, blob in self.blobs.items()}
        self.out = {}

    def decode(self) -> None:
        self.out = {dtype: coder.decompress(self.blobs[dtype]) for dtype, coder in self.coders.items()}

    def exact(self) -> bool:
        return all(self.out[dtype] == xor.data for dtype, xor in self.xors.items())
