"""Lossless deltas between checkpoints.

    import ulpack

    ulpack.save_delta(model.state_dict(), "step200.ulp", reference=state_of_step_100)
    state = ulpack.load_delta("step200.ulp", reference=state_of_step_100)

Importing this package imports no torch and loads no library; both happen at first use. The format is in go/FORMAT.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors
from ._apply import apply_delta_
from ._inspect import backend, inspect, verify
from ._load import load_delta
from ._records import ApplyInfo, BackendInfo, FileInfo, Salvaged, SavedTensor, SaveInfo, TensorInfo, VerifyReport
from ._save import save_delta
from ._single import decode, encode
from ._version import __version__
from .errors import UlpackError, UlpackWarning

if TYPE_CHECKING:
    from .trajectory import Trajectory

__all__ = [
    "ApplyInfo",
    "BackendInfo",
    "FileInfo",
    "Salvaged",
    "SaveInfo",
    "SavedTensor",
    "TensorInfo",
    "Trajectory",
    "UlpackError",
    "UlpackWarning",
    "VerifyReport",
    "__version__",
    "apply_delta_",
    "backend",
    "decode",
    "encode",
    "errors",
    "inspect",
    "load_delta",
    "save_delta",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "Trajectory":  # imported at first use
        from .trajectory import Trajectory

        return Trajectory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
