"""FM-Delta, tensor by tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..pairs import Data, raw
from .codec import Codec, Session, Settings, split_by_support

# It knows half, float and double, and takes a half as 16 bits: bfloat16 is given to it as one.
DTYPES: dict[str, Any] = {
    "bfloat16": np.float16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


class FMDelta(Codec):
    name = "fm-delta"
    package = "fmd"
    threaded = False

    def prepare(self, data: Data, settings: Settings) -> Session:
        taken, stored = split_by_support(data, DTYPES, "FM-Delta")
        pairs = []
        for dtype, names in taken.items():
            for name in names:
                before = data.before(name)
                if before is None or not before.numel():  # it has no mode without a reference, and none for nothing
                    stored += data.target[name].nbytes
                else:
                    pairs.append((as_array(before, DTYPES[dtype]), as_array(data.target[name], DTYPES[dtype])))
        return FMDeltaSession(self.module(), pairs, stored)


def as_array(tensor: torch.Tensor, dtype: Any) -> np.ndarray:
    shape = tensor.shape if tensor.dim() <= 4 else tensor.shape.numel()
    return raw(tensor).view(dtype).reshape(shape)


class FMDeltaSession(Session):
    def __init__(self, module: Any, pairs: list[tuple[np.ndarray, np.ndarray]], stored: int) -> None:
        self.module, self.pairs, self.stored = module, pairs, stored
        self.inputs: list[tuple[np.ndarray, np.ndarray]] = []
        self.blobs: list[bytes] = []
        self.out: list[np.ndarray] = []

    def before_encode(self) -> None:
        self.inputs = [(before.copy(), target.copy()) for before, target in self.pairs]

    def encode(self) -> None:
        self.blobs = [self.module.compress_param(before, target) for before, target in self.inputs]

    def nbytes(self) -> int:
        return self.stored + sum(map(len, self.blobs))

    def before_decode(self) -> None:
        self.inputs = [(before.copy(), before) for before, _ in self.pairs]
        self.out = []

    def decode(self) -> None:
        self.out = [
            self.module.decompress_param(blob, before)
            for blob, (before, _) in zip(self.blobs, self.inputs, strict=True)
        ]

    def exact(self) -> bool:
        return all(out.tobytes() == target.tobytes() for out, (_, target) in zip(self.out, self.pairs, strict=True))
