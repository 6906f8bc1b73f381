"""What a codec does here: prepare a pair once, then encode and decode it as often as asked."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..pairs import Data


class Missing(Exception):
    """A codec's package is not installed."""


class NotForThis(Exception):
    """A codec does not take the dtype that a pair is made of."""


@dataclass(frozen=True)
class Settings:
    """threads 0 = all; effort of ulpack; scratch is a folder for files."""

    threads: int = 1
    effort: str = "default"
    scratch: Path = Path()


class Session(ABC):
    """One pair in the hands of one codec. Only `encode` and `decode` are timed."""

    stored = 0
    """Bytes of tensors that the codec does not take; they count as stored."""

    def before_encode(self) -> None:  # noqa: B027
        """Bring the input back to what it was."""

    @abstractmethod
    def encode(self) -> None:
        """Encode everything, and keep the result."""

    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the last result, with what was stored."""

    def before_decode(self) -> None:  # noqa: B027
        """Bring the input back to what it was, and spoil earlier output."""

    @abstractmethod
    def decode(self) -> None:
        """Decode the last result, and keep the output."""

    @abstractmethod
    def exact(self) -> bool:
        """Whether the output is what went in, bit for bit, and no input was changed."""

    def close(self) -> None:  # noqa: B027
        """Remove what was written."""


class Codec(ABC):
    name: str
    package: str
    threaded = True
    """Whether it can use several threads."""
    slow = False
    """Whether encoding takes so long that it is done less often."""

    def version(self) -> str:
        """The version of the codec's package.

        Raises:
            Missing: it is not installed.
        """
        module = self.module()
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return str(getattr(module, "__version__", "unknown"))

    def module(self) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a peer's imports warn about is not our business
                return importlib.import_module(self.package)
        except ImportError as error:
            raise Missing(f"{self.name}: {error}") from None

    @abstractmethod
    def prepare(self, data: Data, settings: Settings) -> Session:
        """Take a pair.

        Raises:
            NotForThis: the codec does not take it.
        """


def split_by_support(data: Data, supported: dict[str, Any], codec: str) -> tuple[dict[str, list[str]], int]:
    """Names of the tensors of each dtype that a codec takes, and the bytes of the others.

    Raises:
        NotForThis: the others are more than a tenth of the pair.
    """
    taken = {dtype: names for dtype, names in data.dtypes.items() if dtype in supported}
    stored = data.raw_nbytes - sum(data.target[name].nbytes for names in taken.values() for name in names)
    if stored * 10 > data.raw_nbytes:
        refused = ", ".join(sorted(dtype for dtype in data.dtypes if dtype not in supported))
        raise NotForThis(f"{codec} does not take {refused}")
    return taken, stored


def joined(data: Data, names: list[str]) -> np.ndarray:
    """The XOR of several tensors with their references, one after the other."""
    return np.concatenate([data.xor(name) for name in names])
