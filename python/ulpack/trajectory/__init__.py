"""A store of the checkpoints of a training run (see ``Trajectory``)."""

from __future__ import annotations

from .background import Saving
from .lock import LockedError
from .records import PruneInfo, StepInfo, StoreReport, Why
from .store import Trajectory

__all__ = ["LockedError", "PruneInfo", "Saving", "StepInfo", "StoreReport", "Trajectory", "Why"]
