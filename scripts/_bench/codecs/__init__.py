"""The codecs that are compared, one a file, behind one interface (`codec.py`)."""

from __future__ import annotations

from .codec import Codec, Missing, NotForThis, Session
from .fmdelta import FMDelta
from .ulpack_batch import UlpackBatch
from .ulpack_files import UlpackFiles
from .zipnn import ZipNN
from .zstd import Zstd

ALL: dict[str, Codec] = {
    codec.name: codec for codec in (UlpackBatch(), UlpackFiles(), ZipNN(), Zstd(3), Zstd(19, slow=True), FMDelta())
}

__all__ = ["ALL", "Codec", "Missing", "NotForThis", "Session"]
