"""Accelerate's ``save_state`` and ``load_state`` with a trajectory behind them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from ..errors import ArgumentError, MissingFileError
from ..trajectory import Trajectory
from ._folders import numbered, recorded_step, remove_stored

_AUTOMATIC = "checkpoint_"


class TrajectoryState:
    """Puts a trajectory behind an accelerator's ``save_state`` and ``load_state``, which are called as before.

        accelerator = Accelerator(project_config=ProjectConfiguration("run", automatic_checkpoint_naming=True))
        state = TrajectoryState(accelerator, "run/trajectory")
        accelerator.save_state()     # the folder goes into the store; older folders that are in it are removed
        accelerator.load_state()     # the newest folder, made again from the store where it is missing
        state.close()

    Args:
        accelerator: its two methods are replaced in this object.
        trajectory: a folder or a ``Trajectory``.
        keep_folders: leave all folders where they are.
        **options: of ``Trajectory``; ``verify`` is on unless said otherwise, since folders are removed.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        trajectory: str | os.PathLike[str] | Trajectory,
        *,
        keep_folders: bool = False,
        **options: Any,
    ) -> None:
        self.accelerator = accelerator
        self.trajectory = (
            trajectory if isinstance(trajectory, Trajectory) else Trajectory(trajectory, **{"verify": True, **options})
        )
        self._keep_folders = keep_folders
        self._save_state, self._load_state = accelerator.save_state, accelerator.load_state
        accelerator.save_state = self.save_state
        accelerator.load_state = self.load_state

    def save_state(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """``Accelerator.save_state``; the folder then goes into the store, under the last number in its name."""
        made = self._save_state(output_dir, *args, **kwargs)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            folder = Path(made if made is not None else output_dir or "")
            step = recorded_step(folder)
            if step is None:
                step = max(self.trajectory.steps(), default=-1) + 1 if self.trajectory.exists() else 0
            self.trajectory.add(folder, step=step, existing="replace", after=lambda info: self._clean(folder))
        return made

    def _clean(self, newest: Path) -> None:
        if not self._keep_folders and newest.name.startswith(_AUTOMATIC):
            remove_stored(self.trajectory, numbered(newest.parent, _AUTOMATIC), [newest])

    def load_state(self, input_dir: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """``Accelerator.load_state``; a folder that is missing is made from the store first.

        Raises:
            MissingFileError: neither the folder nor the step is there.
        """
        self.trajectory.flush()
        if self.accelerator.is_main_process:
            self._provide(input_dir)
        self.accelerator.wait_for_everyone()
        return self._load_state(input_dir, *args, **kwargs)

    def _provide(self, input_dir: str | None) -> None:
        if input_dir is None:
            parent = Path(self.accelerator.project_dir or "") / "checkpoints"
            if not self.trajectory.exists():
                return
            folder, step = parent / f"{_AUTOMATIC}{self.trajectory.info('latest').step}", "latest"
        else:
            folder = Path(os.path.expanduser(input_dir))
            number = recorded_step(folder)
            if number is None or folder.exists():
                return
            step = str(number)
        if not folder.exists():
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                self.trajectory.export(step, folder, "original")
            except (MissingFileError, ArgumentError):
                if input_dir is None:
                    raise

    def close(self) -> None:
        """Wait for what is still being saved, let others write, and give the accelerator its methods back."""
        self.accelerator.save_state, self.accelerator.load_state = self._save_state, self._load_state
        self.trajectory.close()
