"""The command line for stores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack
from safetensors.torch import load_file, save_file
from torch_states import assert_same, steps
from trajectory_runs import data_files, everything, save_all, training_states
from ulpack import Trajectory
from ulpack._cli.program import run

pytestmark = pytest.mark.usefixtures("native")


class Cli:
    """Runs commands in this process; keeps what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: Any, code: int = 0) -> str:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run([str(argument) for argument in arguments])
        self.out, self.err = self.capsys.readouterr()
        assert (caught.value.code or 0) == code, (self.out, self.err)
        return self.out

    def json(self, *arguments: Any, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of checkpoints, which is also where the commands run."""
    for step, state in zip((9, 10, 100), steps(3), strict=True):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        save_file(state, folder / "model.safetensors", {"format": "pt"})
        torch.save({"lr": 0.1 * step, "exp_avg": state["embed.weight"]}, folder / "optimizer.pt")
        (folder / "config.json").write_text('{"width": 32}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_of_checkpoints_becomes_a_store(runs: Path, cli: Cli) -> None:
    originals = {step: files(runs / f"checkpoint-{step}") for step in (9, 10, 100)}
    text = cli("add", *sorted(runs.glob("checkpoint-*")))  # by name, so 10 and 100 before 9
    assert "nothing was deleted" in text
    assert text.index("step 9,") < text.index("step 10,") < text.index("step 100,")
    assert {step: files(runs / f"checkpoint-{step}") for step in (9, 10, 100)} == originals
    log = cli.json("log")
    assert [row["step"] for row in log["steps"]] == [9, 10, 100]
    assert [row["base"] for row in log["steps"]] == [None, 9, 10]
    assert log["nbytes"] == sum(len(raw) for raw in everything(runs / "trajectory").values())

    again = cli.json("add", *runs.glob("checkpoint-*"))
    assert [row["new"] for row in again["added"]] == [False] * 3
    assert again["nbytes"] == 0

    planned = cli.json("discard", runs / "checkpoint-9", runs / "checkpoint-10")
    assert not planned["deleted"]
    assert (runs / "checkpoint-9").is_dir()
    done = cli.json("discard", runs / "checkpoint-9", runs / "checkpoint-10", "--yes")
    assert done["nbytes"] == planned["nbytes"] == sum(len(raw) for step in (9, 10) for raw in originals[step].values())
    assert sorted(path.name for path in runs.iterdir()) == ["checkpoint-100", "trajectory"]

    cli("checkout", 10)
    assert files(runs / "checkpoint-10") == originals[10]
    cli("checkout", "latest", "--store", runs / "trajectory", "-o", runs / "out")
    assert files(runs / "out") == originals[100]
    assert "--force" in cli("checkout", 10, code=6) + cli.err
    (runs / "checkpoint-10" / "config.json").write_text("changed")
    cli("checkout", 10, "--force")
    assert files(runs / "checkpoint-10") == originals[10]


def test_discard_only_what_is_there_to_the_last_byte(runs: Path, cli: Cli) -> None:
    cli("add", *runs.glob("checkpoint-*"))
    config = runs / "checkpoint-10" / "config.json"
    config.write_text(config.read_text() + " ")
    before = everything(runs)
    error = cli.json("discard", runs / "checkpoint-9", runs / "checkpoint-10", "--yes", code=4)["error"]
    assert "nothing was deleted" in error["message"]
    assert everything(runs) == before
    config.write_text(config.read_text()[:-1])
    path = data_files(runs / "trajectory")[9]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    error = cli.json("discard", runs / "checkpoint-9", "--yes", code=4)["error"]
    assert "step 9 in the store is damaged" in error["message"]
    assert (runs / "checkpoint-9").is_dir()


def test_add_options(runs: Path, cli: Cli) -> None:
    file = runs / "weights.safetensors"
    save_file(steps(1)[0], file)
    assert cli.json("add", file, code=2)["error"]["kind"] == "argument"
    cli("add", file, "--step", 7, "--tag", "first", "--tag", "good", "--store", runs / "other", "--verify")
    assert Trajectory(runs / "other").info("good").step == 7
    cli("add", file, "--step", 7, "--tag", "more", "--store", runs / "other")
    assert Trajectory(runs / "other").info(7).tags == ("first", "good", "more")
    assert cli("add", file, runs / "checkpoint-9", "--step", 8, code=2) == ""
    assert cli.json("add", runs / "none-1", code=6)["error"]["path"].endswith("none-1")
    assert cli.json("add", runs / "other", "--store", runs / "other", code=2)["error"]["kind"] == "argument"
    save_file(steps(2)[1], file)
    assert "already" in cli.json("add", file, "--step", 7, "--store", runs / "other", code=2)["error"]["message"]
    cli("add", file, "--step", 7, "--store", runs / "other", "--force")
    cli("checkout", 7, "--store", runs / "other", "-o", runs / "again.safetensors")
    assert (runs / "again.safetensors").read_bytes() == file.read_bytes()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with Trajectory(tmp_path / "run") as trajectory:
        for step, state in enumerate(training_states(8)):
            trajectory.save(step, state, metrics={"loss": 8 - step}, tags="good" if step == 3 else ())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def test_log(store: Path, cli: Cli) -> None:
    text = cli("log", store)
    assert "good, loss 5" in text
    assert "against 2" in text
    assert "anchor" in text
    assert "x raw" in text
    assert "8 steps" in text
    assert cli.json("log", code=6)["error"]["kind"] == "io", "there is no store here"
    with Trajectory(store) as trajectory:
        trajectory.tag(1, "\x1b[31m")
    assert "\x1b" not in cli("log", store)


def test_the_store_here(store: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store)
    assert len(cli.json("log")["steps"]) == 8
    assert cli.json("why", "latest")["step"] == 7


def test_prune_and_why(store: Path, cli: Cli) -> None:
    why = cli.json("why", "2", "--store", store)
    assert (why["needs"], why["needed_by"]) == ([0, 1], [3, 4, 5, 6, 7])
    before = everything(store)
    planned = cli.json("prune", store, "--keep-last", 2, "--keep-best", "loss:max=2", "--dry-run")
    assert planned["removed"] == [2, 4, 5]
    assert planned["kept"]["3"] == ["tagged good"]
    assert everything(store).keys() == before.keys()
    done = cli.json("prune", store, "--keep-last", 2, "--keep-best", "loss:max=2")
    assert done["removed"] == planned["removed"]
    assert done["nbytes_after"] < done["nbytes_before"]
    text = cli("prune", store, "--keep-every", 7, "--drop-tagged")
    assert "removed: 1, 3, 6" in text
    assert Trajectory(store).steps() == [0, 7]
    assert cli("prune", store, code=2) == ""
    assert cli("prune", store, "--keep-best", "loss=x", code=2) == ""
    folded = cli.json("fold", "7", "--store", store)
    assert folded["step"] == 7
    assert Trajectory(store).info(7).base is None


def test_du(store: Path, cli: Cli) -> None:
    record = cli.json("du", store)
    assert record["nbytes"] == sum(len(raw) for raw in everything(store).values())
    assert sum(record["parts"].values()) == record["nbytes"]
    assert f"{record['nbytes']:,}" in cli("du", store)


def test_verify(store: Path, cli: Cli) -> None:
    assert "8 steps decoded and right" in cli("verify", store)
    (store / "data" / "stranger").write_bytes(b"")
    record = cli.json("verify", store)
    assert record["ok"]
    assert record["leftovers"] == ["data/stranger"]
    data_files(store)[5].unlink()
    record = cli.json("verify", store, code=6)
    assert record["good"] == [0, 1, 2, 3, 4]
    assert set(record["bad"]) == {"5", "6", "7"}
    assert "delta file of step 5" in record["bad"]["7"][""]["message"]


def test_checkout_of_states(store: Path, cli: Cli, tmp_path: Path) -> None:
    states = training_states(8)
    made = cli.json("checkout", "4", "--store", store)
    assert made["path"] == "step-4.pt"
    assert_same(torch.load(tmp_path / "step-4.pt", weights_only=False), states[4])
    cli("checkout", "good", "--store", store, "--format", "ulp", "-o", "good.ulp")
    assert_same(ulpack.load_delta("good.ulp"), states[3])
    flat = steps(2)
    with Trajectory(tmp_path / "flat") as trajectory:
        save_all(trajectory, dict(enumerate(flat)))
    cli("checkout", "1", "-s", tmp_path / "flat", "-o", "flat.safetensors")
    assert_same(load_file("flat.safetensors"), flat[1])
    assert cli.json("checkout", "9", "--store", store, code=6)["error"]["kind"] == "io"


def test_plot(store: Path, cli: Cli, tmp_path: Path) -> None:
    record = cli.json("plot", store, "-o", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert [row["step"] for row in record["steps"]] == list(range(8))
    rows = {(row["step"], row["name"]): row for row in record["changes"]}
    assert rows[3, "model.0.weight"]["changed"] > 0.9
    assert 0 <= rows[3, "model.0.weight"]["crossed"] < 0.5
    assert rows[3, "rng"]["crossed"] is None
    cli("plot", store, "-o", tmp_path / "picture.png", code=6)
    cli("plot", store, "-o", tmp_path / "picture.png", "--force")


def test_changes_are_counted_right(tmp_path: Path, cli: Cli) -> None:
    before = {"w": torch.tensor([1.0, -2.0, 3.0, 0.0]), "n": torch.arange(4), "h": torch.ones(8).to(torch.bfloat16)}
    after = {"w": torch.tensor([1.0, 2.0, 4.0, -0.0]), "n": torch.arange(4), "h": before["h"].clone()}
    after["h"][2] = -1
    with Trajectory(tmp_path / "run") as trajectory:
        save_all(trajectory, {1: before, 2: after})
    record = cli.json("plot", tmp_path / "run", "-o", tmp_path / "p.png")
    found = {row["name"]: (row["changed"], row["crossed"]) for row in record["changes"]}
    assert found == {"w": (0.75, 0.5), "n": (0.0, None), "h": (0.125, 0.125)}


def test_a_pipeline_without_the_original(runs: Path, cli: Cli) -> None:
    originals = {step: files(runs / f"checkpoint-{step}") for step in (9, 10, 100)}
    cli("add", *runs.glob("checkpoint-*"))
    for step in originals:
        shutil.rmtree(runs / f"checkpoint-{step}")
    cli("prune", "--keep-last", 2)
    cli("verify", "trajectory")
    for step in (10, 100):
        cli("checkout", step)
        assert files(runs / f"checkpoint-{step}") == originals[step]
