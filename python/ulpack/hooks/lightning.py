"""A checkpoint plugin for Lightning that keeps its checkpoints in a trajectory."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

try:
    from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
except ImportError:
    from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from .. import _files
from ..errors import CorruptError, MissingFileError
from ..trajectory import StepInfo, Trajectory

_KEY = "ulpack trajectory"
_LIMIT = 4096


class TrajectoryCheckpointIO(TorchCheckpointIO):
    """Keeps checkpoints in a trajectory; under each checkpoint's own path there is only a small file that points into
    it.

        Trainer(plugins=[TrajectoryCheckpointIO("run/trajectory")], callbacks=[ModelCheckpoint(save_top_k=3,
        monitor="loss")])

    Saves are compressed while training goes on; a pointer appears when its checkpoint is on disk. Removing the last
    pointer to a checkpoint removes it from the store. Ordinary ``.ckpt`` files still load.

    A checkpoint may hold what a delta file can: tensors and plain values. Mappings of other classes come back as dicts,
    paths as text; other objects (in ``hyper_parameters``, say) are an error that names them.

    Args:
        trajectory: a folder or a ``Trajectory``; by default "trajectory" beside the first checkpoint.
        **options: of ``Trajectory``.
    """

    def __init__(self, trajectory: str | os.PathLike[str] | Trajectory | None = None, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._replaced: list[tuple[Path, Pointer]] = []
        self._trajectory: Trajectory | None = None
        if trajectory is not None:
            self._trajectory = trajectory if isinstance(trajectory, Trajectory) else Trajectory(trajectory, **options)

    @property
    def trajectory(self) -> Trajectory | None:
        """The store; None before the first checkpoint if it was not given."""
        return self._trajectory

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Save a checkpoint under its global step, and a pointer to it under ``path``."""
        if storage_options is not None:
            raise TypeError("storage_options are not supported by TrajectoryCheckpointIO")
        pointer = Path(os.path.abspath(os.fspath(path)))
        if self._trajectory is None:
            self._trajectory = Trajectory(pointer.parent / "trajectory", **self._options)
        store = self._trajectory
        self._drop_replaced()
        pointer.parent.mkdir(parents=True, exist_ok=True)
        old = read_pointer(pointer) if pointer.is_file() and not pointer.is_symlink() else None
        store.save(
            int(checkpoint.get("global_step", 0)),
            _plain(checkpoint),
            tags=(_tag(store, pointer),),
            existing="keep",
            after=lambda info: _write_pointer(store, pointer, info),
        )
        if old is not None:
            self._replaced.append((pointer, old))

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load what a pointer points to, or an ordinary checkpoint file.

        Raises:
            MissingFileError: the store, or the checkpoint in it, is gone.
        """
        if self._trajectory is not None:
            self._trajectory.flush()
        found = read_pointer(Path(os.fspath(path)))
        if found is None:
            return super().load_checkpoint(path, map_location, weights_only)
        device = None if callable(map_location) or isinstance(map_location, Mapping) else map_location
        return self._store(found.store).load(found.identity, device=device)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove a pointer, and what it points to if no other one does; or an ordinary checkpoint file."""
        self._drop_replaced()
        pointer = Path(os.path.abspath(os.fspath(path)))
        found = None if pointer.is_symlink() else read_pointer(pointer)
        if found is None:
            super().remove_checkpoint(path)
            return
        pointer.unlink()
        self._drop(pointer, found)

    def _drop(self, path: Path, pointer: Pointer) -> None:
        """Remove what a pointer pointed to if no other one does."""
        store = self._store(pointer.store)
        with contextlib.suppress(MissingFileError):
            if not store.untag(pointer.identity, _tag(store, path)).tags:
                store.remove(pointer.identity)

    def _drop_replaced(self) -> None:
        """Do so for pointers that now point elsewhere."""
        if self._trajectory is not None:
            self._trajectory.flush()
        replaced, self._replaced = self._replaced, []
        for path, old in replaced:
            now = read_pointer(path) if path.is_file() else None
            if now is None or now.identity != old.identity:
                self._drop(path, old)

    def _store(self, path: Path) -> Trajectory:
        if self._trajectory is None or os.path.realpath(self._trajectory.path) != os.path.realpath(path):
            self._trajectory = Trajectory(path, **self._options)
        return self._trajectory

    def teardown(self) -> None:
        """Wait for what is still being saved, and let others write to the store."""
        if self._trajectory is not None:
            self._drop_replaced()
            self._trajectory.close()


class Pointer:
    """What a pointer file says: the store, and the identity of the state in it."""

    def __init__(self, store: Path, identity: str) -> None:
        self.store = store
        self.identity = identity


def read_pointer(path: Path) -> Pointer | None:
    """Read a pointer file; None if the file is something else.

    Raises:
        MissingFileError: it is not there.
        CorruptError: it begins like a pointer and is none.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_LIMIT)
    except IsADirectoryError:
        return None
    except FileNotFoundError:
        raise MissingFileError("no such checkpoint", path=os.fspath(path)) from None
    if not raw.startswith(b'{"' + _KEY.encode()):
        return None
    try:
        fields = json.loads(raw)
        return Pointer(Path(os.path.realpath(path)).parent / fields[_KEY], fields["state"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"not a pointer to a checkpoint: {error}", path=os.fspath(path)) from None


def _write_pointer(store: Trajectory, pointer: Path, info: StepInfo) -> None:
    relative = PurePath(os.path.relpath(store.path, os.path.realpath(pointer.parent))).as_posix()
    if pointer.is_symlink():
        pointer.unlink()
    with _files.output(pointer) as fd:
        os.write(fd, json.dumps({_KEY: relative, "step": info.step, "state": info.id}).encode() + b"\n")


def _tag(store: Trajectory, pointer: Path) -> str:
    """The tag of a checkpoint for each pointer to it."""
    return "pointer:" + PurePath(os.path.relpath(pointer, store.path)).as_posix()


def _plain(node: Any) -> Any:
    """A nest with mappings as dicts and paths as text."""
    if isinstance(node, Mapping):
        kind = type(node) if type(node).__module__ in ("builtins", "collections") else dict
        if kind is dict:
            return {key: _plain(value) for key, value in node.items()}
        made = node.copy()  # type: ignore[attr-defined]
        for key, value in node.items():
            made[key] = _plain(value)
        return made
    if isinstance(node, PurePath):
        return os.fspath(node)
    if type(node) in (list, tuple):
        return type(node)(_plain(value) for value in node)
    return node
