"""ulpack, the codec: one call for a whole file in memory, one call back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import xxhash

from ..pairs import Data, raw
from .codec import Codec, Session, Settings

SPOILED = 0xA5


class UlpackBatch(Codec):
    name = "ulpack"
    package = "ulpack"

    def prepare(self, data: Data, settings: Settings) -> Session:
        return UlpackSession(data, settings)


class UlpackSession(Session):
    """The tensors as tables of addresses, as save_delta and load_delta make them; a warm buffer for the file."""

    def __init__(self, data: Data, settings: Settings) -> None:
        from ulpack import _backend, _buffers, _options

        self.data = data
        self.backend: Any = _backend.select()
        self.options = _options.options(settings.threads or None, None, settings.effort)
        self.table = _backend.Table()
        self.out = {name: torch.empty_like(tensor) for name, tensor in data.target.items()}
        for name, tensor in data.target.items():
            before = data.before(name)
            self.table.add(name, _buffers.view(tensor), None if before is None else _buffers.view(before))
        self.items = _backend.Items()
        for number, (name, out) in enumerate(self.out.items()):
            before = data.before(name)
            view = None if before is None else _buffers.view(before)
            self.items.add(number, out.nbytes, view, out.data_ptr(), out)
        self.file = _NativeFile(self.backend, self.table) if self.backend.name == "native" else None
        if self.file is not None:
            # Nothing announced: the call is then made in this thread, without a second one that waits for Ctrl-C.
            self.items.nbytes = [0] * len(self.out)
        self.blob = b""
        self.stream = _backend.Stream
        self.hashes = self._hashes()

    def _hashes(self) -> list[int]:
        tensors = [*self.data.target.values(), *self.data.reference.values()]
        return [xxhash.xxh3_64_intdigest(raw(tensor).data) for tensor in tensors]

    def before_encode(self) -> None:
        self._hashes()  # brings the input into the cache, as the peers' fresh copies are

    def encode(self) -> None:
        if self.file is not None:
            self.file.write(self.options)
        else:
            self.blob = self.backend.save_bytes(self.table, b"", b"", self.options)

    def nbytes(self) -> int:
        return self.file.written if self.file is not None else len(self.blob)

    def before_decode(self) -> None:
        for tensor in self.out.values():
            raw(tensor).fill(SPOILED)
        self._hashes()

    def decode(self) -> None:
        if self.file is not None:
            stream = self.stream(address=self.file.address, nbytes=self.file.written)
        else:
            memory = np.frombuffer(self.blob, np.uint8)
            stream = self.stream(address=memory.__array_interface__["data"][0], nbytes=memory.nbytes, keep=memory)
        self.backend.load(stream, self.items, self.options, salvage=False, verify_only=False)

    def exact(self) -> bool:
        same = all(np.array_equal(raw(self.out[name]), raw(tensor)) for name, tensor in self.data.target.items())
        return same and self.hashes == self._hashes()


class _NativeFile:
    """Memory that the native library writes a file to, again and again."""

    def __init__(self, backend: Any, table: Any) -> None:
        from ulpack._backend import native
        from ulpack._backend.library import StreamStruct

        self.backend = backend
        self.columns = native._Columns(table)
        names = sum(len(name.encode()) for name in table.names)
        self.buffer = np.zeros(sum(table.nbytes) * 9 // 8 + 4 * names + 1024 * len(table.names) + (1 << 16), np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]
        self.struct = StreamStruct(-1, self.address, self.buffer.nbytes, 0)
        self.written = 0

    def write(self, options: Any) -> None:
        # 0: see above.
        self.written = self.backend._save(self.struct, self.columns, b"", b"", 0, options).written
