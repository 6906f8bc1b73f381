"""ulpack as it is used: save_delta to a file, load_delta from it."""

from __future__ import annotations

import numpy as np
import torch

from ..pairs import Data, raw
from .codec import Codec, Session, Settings
from .ulpack_batch import SPOILED


class UlpackFiles(Codec):
    name = "files"
    package = "ulpack"

    def prepare(self, data: Data, settings: Settings) -> Session:
        return FileSession(data, settings)


class FileSession(Session):
    def __init__(self, data: Data, settings: Settings) -> None:
        self.data = data
        self.threads = settings.threads or None
        self.effort = settings.effort
        self.path = settings.scratch / "bench.ulp"
        self.out = {name: torch.empty_like(tensor) for name, tensor in data.target.items()}

    def encode(self) -> None:
        import ulpack

        ulpack.save_delta(
            self.data.target, self.path, reference=self.data.reference, threads=self.threads, effort=self.effort
        )

    def nbytes(self) -> int:
        return self.path.stat().st_size

    def before_decode(self) -> None:
        for tensor in self.out.values():
            raw(tensor).fill(SPOILED)

    def decode(self) -> None:
        import ulpack

        ulpack.load_delta(self.path, reference=self.data.reference, out=self.out, threads=self.threads)

    def exact(self) -> bool:
        return all(np.array_equal(raw(self.out[name]), raw(tensor)) for name, tensor in self.data.target.items())

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
