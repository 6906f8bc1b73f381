"""The index of a file, parsed: what every reading verb starts from."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from . import _dtypes
from ._backend import Backend, Stream
from ._dtypes import Dtype
from ._structure import Parsed, parse
from .errors import CorruptError, UlpackError, UnsupportedError


class Index:
    """The index of a file (go/FORMAT.md, annex "Index as JSON").

    Attributes:
        raw: the JSON as it is.
        names, dtypes, shapes, nbytes: of the tensors, in file order.
        references: (name, fingerprint) of the reference of each tensor, or None where nothing in the file needs it.
        needs: for each tensor the numbers of those whose references loading it takes: mostly itself or none.
        fingerprints: of the tensors' values.
        path: for messages.
    """

    def __init__(self, raw: dict[str, Any], path: str | None) -> None:
        self.raw = raw
        self.path = path
        tensors = raw["tensors"]
        self.names: list[str] = [t["name"] for t in tensors]
        self.dtypes: list[Dtype] = [
            _dtypes.by_code(t["dtype"], t["dtype_name"], t["itemsize"])
            if t["dtype"] == 0
            else _dtypes.by_code(t["dtype"])
            for t in tensors
        ]
        self.shapes: list[tuple[int, ...]] = [tuple(t["shape"]) for t in tensors]
        self.nbytes: list[int] = [t["nbytes"] for t in tensors]
        for name, dtype, shape, nbytes in zip(self.names, self.dtypes, self.shapes, self.nbytes, strict=True):
            if nbytes != dtype.itemsize * math.prod(shape):  # memory is allocated by one and written by the other
                raise CorruptError(f"{nbytes} bytes for {dtype.name[:80]}{list(shape)}", tensor=name, path=path)
        self.fingerprints: list[int] = [int(t["fingerprint"], 16) for t in tensors]
        self.references: list[tuple[str, int] | None] = [
            None if t["reference"] is None else (t["reference"]["name"], int(t["reference"]["fingerprint"], 16))
            for t in tensors
        ]
        own = [[] if reference is None else [n] for n, reference in enumerate(self.references)]
        self.needs: list[list[int]] = [t.get("needs", alone) for t, alone in zip(tensors, own, strict=True)]

    def needed(self, numbers: Iterable[int]) -> list[int]:
        """Numbers of the tensors whose references loading these takes."""
        return sorted({k for n in numbers for k in self.needs[n]})

    @property
    def structure(self) -> bytes:
        """The structure as in the file."""
        return base64.b64decode(self.raw["structure"])

    def parse(self) -> Parsed:
        """The nest, with places for the tensors."""
        return parse(self.structure, self.names)

    def metadata(self) -> Any:
        """The metadata, parsed if it is JSON."""
        text = self.raw["metadata"]
        if not text:
            return {}
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def hint(self) -> str:
        """What the writer said about its reference, for messages."""
        metadata = self.metadata()
        hint = metadata.get("reference") if isinstance(metadata, dict) else None
        return f" (made against {hint})" if isinstance(hint, str) and hint else ""

    def number(self, name: str) -> int:
        """Index of the tensor of this name; -1 if there is none."""
        try:
            return self.names.index(name)
        except ValueError:
            return -1


def read_index(backend: Backend, stream: Stream, path: str | None) -> Index:
    """Read and check the index of a file."""
    try:
        return Index(backend.index(stream), path)
    except UlpackError as error:
        raise located(error, path, None) from None
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"the index cannot be understood: {error!r}", path=path) from error


def located(error: UlpackError, path: str | None, names: list[str] | None) -> UlpackError:
    """The error with the file and, from its index, the tensor's name filled in."""
    if error.path is None:
        error.path = path
    if error.tensor is None and error.index is not None and names is not None and 0 <= error.index < len(names):
        error.tensor = names[error.index]
    return error


__all__ = ["Index", "UnsupportedError", "located", "read_index"]
