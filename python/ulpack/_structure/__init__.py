"""The nest around the tensors: typed plain values in bytes, without pickle (go/FORMAT.md, "Structure")."""

from __future__ import annotations

from . import tags
from .leaves import Leaf
from .pack import Packed, collect, pack, pack_value
from .parse import Flattened, Parsed, Quantised, Slot, parse
from .resolve import resolve

__all__ = [
    "Flattened",
    "Leaf",
    "Packed",
    "Parsed",
    "Quantised",
    "Slot",
    "collect",
    "pack",
    "pack_value",
    "parse",
    "resolve",
    "tags",
]
