"""Reference values of the golden vectors: kept as a file, or as a recipe where the file would be large."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

VECTORS = Path(__file__).parent / "vectors"

Recipe = dict[str, Any]


def repeat(pattern: bytes, nbytes: int) -> Recipe:
    """``pattern`` over and over, ``nbytes`` bytes in all."""
    return {"repeat": pattern.hex(), "nbytes": nbytes}


def noise(seed: str, nbytes: int) -> Recipe:
    """SHA-256 of "seed/0", "seed/1", .. one after the other, ``nbytes`` bytes in all."""
    return {"sha256_of": seed, "nbytes": nbytes}


def make(recipe: Recipe | None) -> np.ndarray | None:
    """The bytes of a recipe, 1-D uint8; None for none."""
    if recipe is None:
        return None
    if "file" in recipe:
        return np.frombuffer((VECTORS / recipe["file"]).read_bytes(), np.uint8)
    nbytes = recipe["nbytes"]
    if "repeat" in recipe:
        return np.resize(np.frombuffer(bytes.fromhex(recipe["repeat"]), np.uint8), nbytes)
    blocks = (hashlib.sha256(f"{recipe['sha256_of']}/{i}".encode()).digest() for i in range(-(-nbytes // 32)))
    return np.frombuffer(b"".join(blocks)[:nbytes], np.uint8)


def digest(data: bytes | np.ndarray) -> str:
    return hashlib.sha256(data).hexdigest()


def from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
