"""A callback for the Hugging Face Trainer that takes its checkpoints over into a trajectory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ..errors import ArgumentError
from ..trajectory import Saving, StepInfo, Trajectory
from ..trajectory.add import TRAINER_STATE
from ._folders import numbered, recorded_step, remove_stored


class TrajectoryCallback(TrainerCallback):
    """Takes over what the Trainer saves: weights, optimizer, scheduler, random states, trainer state, tokenizer,
    adapters.

        callback = TrajectoryCallback("run/trajectory")
        trainer = Trainer(..., args=TrainingArguments("run", save_steps=500), callbacks=[callback])
        trainer.train(resume_from_checkpoint=callback.checkout() if callback.trajectory.exists() else None)

    After each save of the Trainer the folder goes into the store, compressed while training goes on. Older folders
    whose every byte is in the store are then removed: only the newest one stays, and the best one if
    ``load_best_model_at_end`` needs it. ``save_total_limit`` holds for the store: the last so many steps stay, and the
    best one.

    Args:
        trajectory: a folder or a ``Trajectory``; by default "trajectory" in the Trainer's output folder.
        keep_folders: leave all folders that the Trainer wrote where they are.
        limit: apply ``save_total_limit`` to the store.
        **options: of ``Trajectory``; ``verify`` is on unless said otherwise, since folders are removed.
    """

    def __init__(
        self,
        trajectory: str | os.PathLike[str] | Trajectory | None = None,
        *,
        keep_folders: bool = False,
        limit: bool = True,
        **options: Any,
    ) -> None:
        self._options = {"verify": True, **options}
        self._trajectory = None if trajectory is None else self._open(trajectory)
        self._keep_folders = keep_folders
        self._limit = limit
        self._parent: int | str | None = "last"
        self._output: Path | None = None
        self.saved: list[Saving] = []

    def _open(self, trajectory: str | os.PathLike[str] | Trajectory) -> Trajectory:
        return trajectory if isinstance(trajectory, Trajectory) else Trajectory(trajectory, **self._options)

    @property
    def trajectory(self) -> Trajectory:
        """The store.

        Raises:
            ArgumentError: none was given, and the Trainer has not said yet where its output goes.
        """
        if self._trajectory is None:
            raise ArgumentError("the callback has no trajectory before the Trainer is made; give it one")
        return self._trajectory

    def checkout(self, step: int | str = "latest", output_dir: str | os.PathLike[str] | None = None) -> str:
        """A checkpoint folder from the store, for ``resume_from_checkpoint``.

        A folder that is there already and whole is used as it is; one that a killed process left half-written is
        replaced. The folder of the best model that the step speaks of is made, too, if it is missing and the store has
        it.

        Args:
            step: as for ``Trajectory.load``.
            output_dir: the Trainer's output folder; by default the one the store lies in.

        Raises:
            MissingFileError: the step is not in the store.
        """
        parent = Path(output_dir) if output_dir is not None else self._output or self.trajectory.path.parent
        folder = self._make(self.trajectory.info(step), parent)
        best = _best_folder(folder)
        if best is not None and not best.exists():
            number = recorded_step(best)
            if number is not None and number in self.trajectory:
                self._make(self.trajectory.info(number), best.parent)
        return os.fspath(folder)

    def _make(self, info: StepInfo, parent: Path) -> Path:
        folder = parent / f"{PREFIX_CHECKPOINT_DIR}-{info.step}"
        if folder.exists():
            held = self.trajectory.holds(folder, step=info.step)
            if held is not None and held.id == info.id:
                return folder
        return self.trajectory.export(info.id, folder, "original", force=True)

    # What the Trainer calls

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Know where the output goes."""
        self._output = Path(args.output_dir)
        if self._trajectory is None:
            self._trajectory = self._open(self._output / "trajectory")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Know which step training goes on from."""
        if state.global_step == 0:
            self._parent = None
        elif self.trajectory.exists() and state.global_step in self.trajectory:
            self._parent = state.global_step

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the new folder over."""
        _wait_for_others()
        folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        if not state.is_world_process_zero or not folder.is_dir():
            return
        if self._limit and args.save_total_limit is not None and args.save_total_limit > 0:
            self.trajectory.retention = {"keep_last": args.save_total_limit, "keep_best": _best_metric(args)}
        keep = [folder]
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            keep.append(Path(state.best_model_checkpoint))
        parent, self._parent = self._parent, "last"
        self.saved.append(
            self.trajectory.add(
                folder,
                step=state.global_step,
                metrics=_metrics(state),
                existing="replace",
                parent=parent,
                after=lambda info: self._clean(keep),
            )
        )

    def _clean(self, keep: list[Path]) -> None:
        if self._keep_folders:
            return
        folders = numbered(keep[0].parent, f"{PREFIX_CHECKPOINT_DIR}-")
        remove_stored(self.trajectory, folders, keep)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Wait for what is still being saved, and let others write to the store."""
        if state.is_world_process_zero:
            self.trajectory.close()


def _metrics(state: TrainerState) -> dict[str, float]:
    """Numbers that were logged at this step."""
    numbers: dict[str, float] = {}
    for entry in state.log_history:
        if entry.get("step") == state.global_step:
            numbers.update((k, float(v)) for k, v in entry.items() if isinstance(v, (int, float)) and k != "step")
    return numbers


def _best_folder(folder: Path) -> Path | None:
    try:
        best = json.loads((folder / TRAINER_STATE).read_text(encoding="utf-8"))["best_model_checkpoint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(best) if isinstance(best, str) else None


def _best_metric(args: TrainingArguments) -> str | None:
    """The metric by which the Trainer chooses the best model, as ``keep_best`` takes it."""
    if args.metric_for_best_model is None:
        return None
    name = args.metric_for_best_model
    name = name if name.startswith("eval_") else f"eval_{name}"
    return f"{name}:{'max' if args.greater_is_better else 'min'}"


def _wait_for_others() -> None:
    """Every process has written its part of the folder when this returns."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
