"""torch is optional and is never imported before it is needed."""

from __future__ import annotations

import sys
from typing import Any

_missing = False


def torch_if_loaded() -> Any:
    """The torch module if the process has imported it, else None: an object can only be a tensor if it has."""
    return sys.modules.get("torch")


def torch_or_none() -> Any:
    """The torch module, imported now if need be, or None where it is not installed."""
    global _missing
    module = sys.modules.get("torch")
    if module is not None or _missing:
        return module
    try:
        import torch
    except ImportError:
        _missing = True
        return None
    return torch
