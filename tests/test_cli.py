"""The command line: files come back byte for byte, outputs appear whole or not at all, exit codes say what happened."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import ulpack
from safetensors.torch import load_file, save_file
from torch_states import DTYPES, assert_same, bits, nearby, random_tensor, small_model, steps, train
from ulpack.__main__ import main
from ulpack._cli.program import run
from ulpack._progress import terminal_bar

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
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two safetensors files of one run."""
    base, state = steps(2, dtype=torch.bfloat16)
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file(base, a, metadata={"format": "pt", "step": "1"})
    save_file(state, b, metadata={"step": "2", "é\n": "\x7f\u2028"})
    return a, b


def shards(folder: Path, state: dict[str, torch.Tensor], extra: dict[str, bytes]) -> Path:
    """A sharded folder as transformers writes it."""
    folder.mkdir(parents=True)
    names = list(state)
    weight_map = {}
    for number, part in enumerate((names[:2], names[2:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: state[name] for name in part}, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    for name, data in extra.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def assert_same_folder(left: Path, right: Path) -> None:
    files = [sorted(p.relative_to(f).as_posix() for p in f.rglob("*") if p.is_file()) for f in (left, right)]
    assert files[0] == files[1]
    for name in files[0]:
        assert (left / name).read_bytes() == (right / name).read_bytes(), name


def hand_written(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


class TestFiles:
    def test_safetensors(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d, out = tmp_path / "d.ulp", tmp_path / "out.safetensors"
        said = cli("diff", a, b, "-o", d)
        assert f"{d.stat().st_size:,} bytes" in said
        assert d.stat().st_size < b.stat().st_size / 2
        cli("apply", a, d, "-o", out)
        assert out.read_bytes() == b.read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors", "d.ulp", "out.safetensors"]
        info = ulpack.inspect(d)
        assert info.kind == "file"
        assert info.files == ("b.safetensors",)
        assert info.metadata == {"reference": "a.safetensors"}
        assert_same(ulpack.load_delta(d, reference=a), load_file(b))

    def test_header_costs_next_to_nothing(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        cli("diff", a, b, "-o", tmp_path / "d.ulp")
        plain = ulpack.save_delta(load_file(b), tmp_path / "p.ulp", reference=load_file(a)).nbytes
        assert (tmp_path / "d.ulp").stat().st_size < plain + 120

    @pytest.mark.parametrize(
        "header",
        [
            b'{ "x" : X, "y": Y}',
            b'{"y":Y,"x":X}   ',
            b'{"x":{"shape":[2],"dtype":"F32","data_offsets":[0,8]},"y":Y}',
            b'{"x":X,"y":{"dtype":"F6_E2M3","shape":[1],"data_offsets":[8,9]}}',
            b'{"__metadata__":{},"x":X,"y":Y}',
            b'{"x":X,"y":Y,"__metadata__":{"a":"b"}}',
            b'{"x":{"dtype":"F4","shape":[1,16],"data_offsets":[0,8]},"y":Y}',
            b'{"x":X,"\\u00e9":Y}',
            b'{"x":X,"\\ud800":Y}',
        ],
    )
    @pytest.mark.parametrize("padding", [0, 3, 5000])
    def test_any_header(self, header: bytes, padding: int, tmp_path: Path, cli: Cli) -> None:
        header = header.replace(b"X", b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}')
        header = header.replace(b"Y", b'{"dtype":"I8","shape":[1],"data_offsets":[8,9]}')
        files = []
        for number, data in enumerate((b"abcdefghi", b"abcdefghj")):
            files.append(tmp_path / f"{number}.safetensors")
            files[-1].write_bytes(hand_written(header + b" " * padding, data))
        for base in (files[0], None):
            out = tmp_path / "out.safetensors"
            if base is None:
                cli("pack", files[1], "-o", tmp_path / "d.ulp", "--force")
                cli("unpack", tmp_path / "d.ulp", "-o", out, "--force")
            else:
                cli("diff", base, files[1], "-o", tmp_path / "d.ulp", "--force", "--verify")
                cli("apply", base, tmp_path / "d.ulp", "-o", out, "--force")
            assert out.read_bytes() == files[1].read_bytes()

    def test_every_safetensors_dtype(self, tmp_path: Path, cli: Cli) -> None:
        base = {}
        for dtype in DTYPES:
            try:
                save_file({"x": random_tensor(dtype, (3, 4))}, tmp_path / "probe.safetensors")
            except Exception:  # not a dtype of safetensors
                continue
            base.update({f"{dtype}": random_tensor(dtype, (3, 40)), f"{dtype} none": random_tensor(dtype, (0, 3))})
        assert len(base) >= 2 * 20
        state = {name: nearby(tensor) if tensor.dtype is not torch.bool else tensor for name, tensor in base.items()}
        save_file(base, tmp_path / "a.safetensors")
        save_file(state, tmp_path / "b.safetensors")
        cli("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "-o", tmp_path / "d.ulp")
        cli("apply", tmp_path / "a.safetensors", tmp_path / "d.ulp", "-o", tmp_path / "c.safetensors")
        assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()
        loaded = ulpack.load_delta(tmp_path / "d.ulp", reference=tmp_path / "a.safetensors")
        assert_same({name: loaded[name] for name in state}, state)

    def test_files_that_are_not_what_they_are_called(self, tmp_path: Path, cli: Cli) -> None:
        for number, data in enumerate((b"", b"x", os.urandom(70_001), hand_written(b"{}", b""))):
            target, out, d = tmp_path / f"t{number}.safetensors", tmp_path / f"o{number}", tmp_path / f"{number}.ulp"
            target.write_bytes(data)
            cli("pack", target, "-o", d)
            cli("unpack", d, "-o", out)
            assert out.read_bytes() == data
            cli("diff", target, target, "-o", d, "--force")
            cli("apply", target, d, "-o", out, "--force")
            assert out.read_bytes() == data
            assert d.stat().st_size < 250

    def test_torch_files(self, tmp_path: Path, cli: Cli) -> None:
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters())
        files = []
        for number in range(2):
            train(model, optimizer, 2)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": number}
            files.append(tmp_path / f"{number}.pt")
            torch.save(state, files[-1])
        a, b = files
        d, out = tmp_path / "d.ulp", tmp_path / "out.pt"
        cli("diff", a, b, "-o", d)
        cli("apply", a, d, "-o", out)
        assert out.read_bytes() == b.read_bytes()
        names = {tensor.name for tensor in ulpack.inspect(d).tensors}
        assert {"optimizer.state.0.exp_avg", "model.1.weight", "file:"} <= names
        loaded = ulpack.load_delta(d, reference=a)
        expected = torch.load(b, weights_only=True)
        assert_same(loaded["optimizer"], expected["optimizer"])
        assert loaded["model"]["0.weight"] is loaded["model"]["2.weight"]

    def test_torch_file_untied_since(self, tmp_path: Path, cli: Cli) -> None:
        x = torch.randn(400)
        torch.save({"a": x, "b": x}, tmp_path / "a.pt")
        torch.save({"a": x * 1.001, "b": x * 1.002}, tmp_path / "b.pt")
        made = cli.json("diff", tmp_path / "a.pt", tmp_path / "b.pt", "-o", tmp_path / "d.ulp")
        assert made["without_reference"] == {}
        cli("apply", tmp_path / "a.pt", tmp_path / "d.ulp", "-o", tmp_path / "c.pt")
        assert (tmp_path / "c.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()

    def test_torch_files_with_odd_contents(self, tmp_path: Path, cli: Cli) -> None:
        x = torch.randn(40, 50)
        contents = {
            "views": {"whole": x, "slice": x[3:7], "columns": x[:, 2], "transposed": x.t()},
            "values": {"step": 5, "lr": [0.1], "none": None},
            "parameter": torch.nn.Parameter(x),
            "code": {"x": x, "object": Exception("weights_only refuses this")},
        }
        for name, state in contents.items():
            target, d, out = tmp_path / f"{name}.pt", tmp_path / f"{name}.ulp", tmp_path / f"{name}.out.pt"
            torch.save(state, target)
            cli("pack", target, "-o", d)
            cli("unpack", d, "-o", out)
            assert out.read_bytes() == target.read_bytes(), name
            cli("verify", d)
        old = tmp_path / "old.pt"
        torch.save({"x": x}, old, _use_new_zipfile_serialization=False)
        cli("pack", old, "-o", tmp_path / "old.ulp")
        cli("unpack", tmp_path / "old.ulp", "-o", tmp_path / "old.out.pt")
        assert (tmp_path / "old.out.pt").read_bytes() == old.read_bytes()

    def test_folders(self, tmp_path: Path, cli: Cli) -> None:
        base, state = steps(2, dtype=torch.bfloat16)
        extra = {"config.json": b'{"a": 1}', "tokenizer/vocab.txt": os.urandom(50_000), "empty": b""}
        a = shards(tmp_path / "a", base, extra)
        b = shards(
            tmp_path / "b", state, {**extra, "trainer_state.json": b"[1, 2, 3]" * 20, "config.json": b'{"a": 2}'}
        )
        torch.save({"m": base["embed.weight"].float()}, a / "optimizer.pt")
        torch.save({"m": state["embed.weight"].float()}, b / "optimizer.pt")
        d, out = tmp_path / "d.ulp", tmp_path / "out"
        cli("diff", a, b, "-o", d)
        assert d.stat().st_size < 20_000
        cli("apply", a, d, "-o", out)
        assert_same_folder(out, b)
        loaded = ulpack.load_delta(d, reference=a)
        for name, tensor in state.items():
            assert bits(loaded[name]) == bits(tensor)
        assert bits(loaded["optimizer.pt"]["m"]) == bits(state["embed.weight"].float())
        by_name = {tensor.name: tensor for tensor in ulpack.inspect(d).tensors}
        assert by_name["file:tokenizer/vocab.txt"].plan == "identical"
        assert by_name["optimizer.pt.m"].reference == "optimizer.pt.m"
        cli("apply", a, d, "-o", out, code=6)
        (out / "config.json").write_bytes(b"changed")
        cli("apply", a, d, "-o", out, "--force")
        assert_same_folder(out, b)
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]

    def test_folder_of_links_and_resharding(self, tmp_path: Path, cli: Cli) -> None:
        base, state = steps(2)
        store = shards(tmp_path / "store", base, {})
        a = tmp_path / "a"
        a.mkdir()
        for file in store.iterdir():
            (a / file.name).symlink_to(file)
        b = tmp_path / "b"
        b.mkdir()
        save_file(state, b / "model.safetensors")
        cli("diff", a, b, "-o", tmp_path / "d.ulp")
        assert not cli.json("diff", a, b, "-o", tmp_path / "e.ulp")["without_reference"]
        cli("apply", a, tmp_path / "d.ulp", "-o", tmp_path / "c")
        assert_same_folder(tmp_path / "c", b)

    def test_folders_whose_names_clash(self, tmp_path: Path, cli: Cli) -> None:
        b = tmp_path / "b"
        (b / "sub").mkdir(parents=True)
        save_file({"w": torch.ones(3), "c.safetensors.w": torch.ones(2)}, b / "a.safetensors")
        save_file({"w": torch.zeros(3)}, b / "c.safetensors")
        save_file({"w": torch.zeros(4)}, b / "sub" / "a.safetensors")
        cli("pack", b, "-o", tmp_path / "d.ulp")
        cli("unpack", tmp_path / "d.ulp", "-o", tmp_path / "out")
        assert_same_folder(tmp_path / "out", b)
        del b
        other = tmp_path / "other"
        other.mkdir()
        for name, value in (("a", 1.0), ("c", 0.0)):
            save_file({"w": torch.full((3,), value)}, other / f"{name}.safetensors")
        cli("pack", other, "-o", tmp_path / "e.ulp")
        loaded = ulpack.load_delta(tmp_path / "e.ulp")
        assert_same(loaded["c.safetensors"]["w"], torch.zeros(3))
        assert_same(loaded["w"], torch.ones(3))

    def test_several_references_and_an_anchor_as_one(self, tmp_path: Path, cli: Cli) -> None:
        base, previous, state = steps(3)
        parts = [{k: v for k, v in previous.items() if "block" in k}, base]
        for name, part in zip(("a", "b", "c"), (*parts, state), strict=True):
            save_file(part, tmp_path / f"{name}.safetensors")
        cli("pack", tmp_path / "b.safetensors", "-o", tmp_path / "b.ulp")
        also = ("--also", tmp_path / "b.ulp")
        cli("diff", tmp_path / "a.safetensors", tmp_path / "c.safetensors", "-o", tmp_path / "d.ulp", *also)
        swapped = tmp_path / "b.safetensors", tmp_path / "d.ulp", "--also", tmp_path / "a.safetensors"
        cli("apply", *swapped, "-o", tmp_path / "out.safetensors")
        assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()

    def test_deltas_of_states(self, tmp_path: Path, cli: Cli) -> None:
        base, state = steps(2)
        save_file(base, tmp_path / "a.safetensors")
        ulpack.save_delta(state, tmp_path / "flat.ulp", reference=base)
        ulpack.save_delta({"m": state, "step": 3}, tmp_path / "nest.ulp", reference={"m": base})
        torch.save({"m": base}, tmp_path / "a.pt")
        cli("apply", tmp_path / "a.safetensors", tmp_path / "flat.ulp", "-o", tmp_path / "b.safetensors")
        assert_same({k: load_file(tmp_path / "b.safetensors")[k] for k in state}, state)
        cli("apply", tmp_path / "a.pt", tmp_path / "nest.ulp", "-o", tmp_path / "b.pt")
        assert_same(torch.load(tmp_path / "b.pt", weights_only=True), {"m": state, "step": 3})
        cli("apply", tmp_path / "a.pt", tmp_path / "nest.ulp", "-o", tmp_path / "c.safetensors", code=2)
        assert "ends in .pt" in cli.err

    def test_output_survives_errors(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d, out = tmp_path / "d.ulp", tmp_path / "out"
        cli("diff", a, b, "-o", d)
        out.write_bytes(b"precious")
        cli("apply", a, d, "-o", out, code=6)
        assert "--force" in cli.err
        cli("diff", a, b, "-o", d, code=6)
        cli("apply", b, d, "-o", out, "--force", code=3)
        tensor = max(ulpack.inspect(d).tensors, key=lambda t: t.nbytes)
        data = bytearray(d.read_bytes())
        data[tensor.offset + 5] ^= 4
        d.write_bytes(data)
        cli("apply", a, d, "-o", out, "--force", code=4)
        assert tensor.name in cli.err
        d.write_bytes(data[:-40])
        cli("apply", a, d, "-o", out, "--force", code=4)
        assert out.read_bytes() == b"precious"
        assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors", "d.ulp", "out"]

    def test_an_input_is_never_the_output(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d = tmp_path / "d.ulp"
        cli("diff", a, b, "-o", d)
        linked, hard = tmp_path / "link", tmp_path / "hard"
        linked.symlink_to(a)
        os.link(a, hard)
        before = {path: path.read_bytes() for path in (a, b, d)}
        for out in (a, b, linked, hard, tmp_path / "." / "a.safetensors"):
            for force in ((), ("--force",)):
                cli("diff", a, b, "-o", out, *force, code=2)
                assert "also an input" in cli.err
        cli("diff", d, b, "--also", a, "-o", a, "--force", code=2)
        cli("pack", b, "-o", b, "--force", code=2)
        for out in (a, d):
            cli("apply", a, d, "-o", out, "--force", code=2)
            cli("cat", d, "embed.weight", "-r", a, "-o", out, "--force", code=2)
        cli("unpack", d, "-o", d, "--force", code=2)
        assert cli.json("pack", b, "-o", b, "--force", code=2)["error"]["kind"] == "argument"
        assert {path: path.read_bytes() for path in before} == before

    def test_an_input_folder_is_never_the_output(self, tmp_path: Path, cli: Cli) -> None:
        base, state = steps(2)
        a, b = shards(tmp_path / "a", base, {"x/y": b"1"}), shards(tmp_path / "b", state, {"x/y": b"2"})
        links, d = tmp_path / "links", tmp_path / "d.ulp"
        links.mkdir()
        for file in a.glob("*.safetensors"):
            (links / file.name).symlink_to(file)
        cli("diff", a, b, "-o", d)
        shard = next(a.glob("*.safetensors"))
        for out in (shard, a / "x" / "y", next(links.iterdir())):
            cli("diff", a, b, "-o", out, "--force", code=2)
        cli("diff", links, b, "-o", shard, "--force", code=2)
        for out in (a, a / "x", tmp_path):
            cli("apply", a, d, "-o", out, "--force", code=2)
        cli("apply", links, d, "-o", a, "--force", code=2)
        assert "holds an input" in cli.err
        assert_same_folder(a, shards(tmp_path / "again", base, {"x/y": b"1"}))
        cli("apply", a, d, "-o", b, "--force")  # b is no input of this

    def test_hostile_paths_stay_inside(self, tmp_path: Path, cli: Cli) -> None:
        from ulpack._backend import Options, Table, select
        from ulpack._image import File, Image, Literal, encode_image
        from ulpack._structure.varint import write_block

        for path in ("../evil", "/evil", "a/../../evil", "..\\evil", ""):
            structure = bytearray(b"\x04")
            write_block(structure, encode_image(Image(True, [File(path, -1, [Literal(b"x")])])))
            data = select().save_bytes(Table(), bytes(structure) + b"\x00", b"", Options())
            (tmp_path / "d.ulp").write_bytes(data)
            cli("unpack", tmp_path / "d.ulp", "-o", tmp_path / "out", code=4)
        assert os.listdir(tmp_path) == ["d.ulp"]


class TestDisplay:
    def test_info(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d = tmp_path / "d.ulp"
        cli("diff", a, b, "-o", d)
        text = cli("info", d)
        for expected in ("embed.weight", "bfloat16", "64x32", "coded", "bits/weight", "share", "format 1.", "scalar"):
            assert expected in text
        record = cli.json("info", d)
        assert record["nbytes"] == d.stat().st_size
        assert record["package_version"] == ulpack.__version__
        assert record["kind"] == "file"
        tensor = next(t for t in record["tensors"] if t["name"] == "embed.weight")
        assert tensor["bits_per_weight"] == pytest.approx(8 * tensor["nbytes"] / 2048)
        assert sum(t["raw_nbytes"] for t in record["tensors"]) == record["raw_nbytes"]

    def test_info_keeps_names_whole(self, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line for each tensor however narrow the screen; in a pipe with its whole name, for grep."""
        names = [f"model.layers.{n}.{'long_' * 30}projection.weight" for n in range(12)]
        state = {name: torch.ones(3) for name in names}
        ulpack.save_delta(state, tmp_path / "x.ulp", reference={f"module.{name}": state[name] for name in names[1:]})
        monkeypatch.setenv("COLUMNS", "80")
        lines = cli("info", tmp_path / "x.ulp").splitlines()
        assert [line.split()[0] for line in lines[1:13]] == names
        assert [line.split()[4] for line in lines[1:13]] == ["-", *(f"module.{name}" for name in names[1:])]
        monkeypatch.setattr("ulpack._cli.info.on_terminal", lambda: True)
        lines = cli("info", tmp_path / "x.ulp").splitlines()[1:13]
        assert all(line.startswith("model.la") and "…" in line and ".weight " in line for line in lines)
        monkeypatch.setenv("COLUMNS", "120")
        lines = cli("info", tmp_path / "x.ulp").splitlines()[1:13]
        assert {len(line) for line in lines} == {120}
        assert len({line.split()[0] for line in lines}) == 12

    def test_words(self, tmp_path: Path, cli: Cli) -> None:
        save_file({"x": torch.ones(3)}, tmp_path / "a.safetensors")
        save_file({"x": torch.ones(3), "y": torch.ones(2)}, tmp_path / "b.safetensors")
        text = cli("diff", tmp_path / "b.safetensors", tmp_path / "a.safetensors", "-o", tmp_path / "d.ulp")
        assert "1 tensor only in the reference" in text
        cli("pack", tmp_path / "a.safetensors", "-o", tmp_path / "p.ulp", "--effort", "max")
        text = cli("info", tmp_path / "p.ulp")
        assert "1 tensor, 12 bytes raw" in text
        assert "effort max" in text
        text = cli("--version")
        assert "kernels" in text
        assert "{" not in text

    @pytest.mark.parametrize("force", [(), ("--force",)])
    def test_outputs_that_cannot_be(
        self, force: tuple[str, ...], pair: tuple[Path, Path], tmp_path: Path, cli: Cli
    ) -> None:
        a, b = pair
        folder = tmp_path / "folder"
        folder.mkdir()
        cli("diff", a, b, "-o", folder, *force, code=2)
        assert "is a folder" in cli.err
        assert "--force" not in cli.err
        for arguments in (("diff", a, b), ("pack", b), ("apply", a, b), ("unpack", b), ("cat", b, "x")):
            cli(*arguments, "-o", "-", *force, code=2)
            assert "standard output" in cli.err
        assert not os.path.exists("-")

    def test_names_cannot_play_with_the_terminal(self, tmp_path: Path, cli: Cli) -> None:
        ulpack.save_delta({"\x1b[31m[red]x": torch.ones(2), "[bold]": 1}, tmp_path / "x.ulp")
        text = cli("info", tmp_path / "x.ulp")
        assert "\x1b" not in text
        assert "[red]x" in text

    def test_verify(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d = tmp_path / "d.ulp"
        cli("diff", a, b, "-o", d)
        assert "decoded and right" in cli("verify", d, "--reference", a)
        record = cli.json("verify", d)
        assert record["ok"]
        assert record["unchecked"]
        assert cli.json("verify", d, "-r", a)["unchecked"] == []
        text = cli("verify", d, "-r", b, code=3)
        assert "that is different from the one given" in text
        assert "damaged" not in text
        record = cli.json("verify", d, "-r", b, code=3)
        assert "embed.weight" in record["different_reference"]
        assert (record["ok"], record["bad"], record["missing_reference"]) == (False, {}, [])
        tensor = next(t for t in ulpack.inspect(d).tensors if t.name == "embed.weight")
        data = bytearray(d.read_bytes())
        data[tensor.offset + 9] ^= 1
        d.write_bytes(data)
        for arguments in ((d,), (d, "-r", a)):
            record = cli.json("verify", *arguments, code=4)
            assert not record["ok"]
            assert record["bad"]["embed.weight"]["kind"] == "corrupt"
            assert list(record["bad"]) == ["embed.weight"]
        cli("apply", a, d, "-o", tmp_path / "c.safetensors", code=4)
        assert cli.err.removeprefix("ulpack: ") in cli("verify", d, "-r", a, code=4)
        assert "byte" in cli.out

    def test_verify_with_a_reference_that_lacks_a_tensor(
        self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli
    ) -> None:
        a, b = pair
        cli("diff", a, b, "-o", tmp_path / "d.ulp")
        state = load_file(a)
        del state["embed.weight"]
        save_file(state, tmp_path / "less.safetensors")
        text = cli("verify", tmp_path / "d.ulp", "-r", tmp_path / "less.safetensors", code=3)
        assert "1 tensor needs a reference that is missing: embed.weight" in text
        record = cli.json("verify", tmp_path / "d.ulp", "-r", tmp_path / "less.safetensors", code=3)
        assert (record["missing_reference"], record["different_reference"]) == (["embed.weight"], [])
        also = "-r", tmp_path / "less.safetensors", "-r", b  # two that have the rest, only one of them is right
        assert cli.json("verify", tmp_path / "d.ulp", *also, code=3)["different_reference"] == ["embed.weight"]

    def test_cat(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        d = tmp_path / "d.ulp"
        cli("diff", a, b, "-o", d)
        expected = load_file(b)["block.0.weight"]
        arguments = ("cat", d, "block.0.weight", "-r", a)
        cli(*arguments, "-o", tmp_path / "x.safetensors")
        assert_same(load_file(tmp_path / "x.safetensors"), {"block.0.weight": expected})
        cli(*arguments, "-o", tmp_path / "x.npy")
        assert np.load(tmp_path / "x.npy").tobytes() == bits(expected)
        assert np.load(tmp_path / "x.npy").dtype == np.uint16
        assert "as uint16" in cli.out
        record = cli.json(*arguments, "-o", tmp_path / "x.npy", "--force")
        assert (record["dtype"], record["written_as"]) == ("bfloat16", "uint16")
        cli(*arguments, "-o", tmp_path / "x.bin")
        assert (tmp_path / "x.bin").read_bytes() == bits(expected)
        cli(*arguments, "-o", tmp_path / "x.bin", code=6)
        cli("cat", d, "nothing", "-o", tmp_path / "y", code=2)
        cli("cat", d, "block.0.weight", "-o", tmp_path / "y", code=3)
        assert not (tmp_path / "y").exists()

    def test_errors(self, pair: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
        a, b = pair
        cli("info", tmp_path / "none.ulp", code=6)
        record = cli.json("info", a, code=4)
        assert record["error"]["kind"] == "corrupt"
        assert record["error"]["path"] == str(a)
        assert "ulpack: corrupt:" in cli.err
        cli("diff", a, tmp_path / "none", "-o", tmp_path / "d.ulp", code=6)
        cli("diff", tmp_path / "none", b, "-o", tmp_path / "d.ulp", code=6)
        cli("diff", a, b, "-o", tmp_path / "no" / "d.ulp", code=6)
        cli("diff", a, b, code=2)
        cli("diff", a, b, "-o", tmp_path / "d.ulp", "--effort", "huge", code=2)
        assert not (tmp_path / "d.ulp").exists()

    @pytest.mark.parametrize(
        "arguments", [["diff", "a"], ["diff", "a", "b"], ["nothing"], ["info"], ["info", "a", "--threads"]]
    )
    def test_wrong_calls_as_json(self, arguments: list[str], cli: Cli) -> None:
        assert cli(*arguments, code=2) == ""
        error = cli.json(*arguments, code=2)["error"]
        assert error["kind"] == "argument"
        assert error["message"]
        assert set(error) == {"kind", "message", "path", "tensor", "offset"}

    def test_help_as_json_is_help(self, cli: Cli) -> None:
        assert "Usage" in cli("diff", "--json", "--help")

    def test_ctrl_c(self, pair: tuple[Path, Path], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("ulpack._cli.info.inspect", interrupt)
            assert cli.json("info", pair[0], code=130)["error"]["kind"] == "cancelled"
            assert "interrupted" in cli.err
        with monkeypatch.context() as patch:  # before a command has begun
            patch.setattr("ulpack._cli.program.app", interrupt)
            assert cli.json("info", pair[0], code=130)["error"]["kind"] == "cancelled"
            patch.setattr("sys.argv", ["ulpack", "info", "x"])
            with pytest.raises(SystemExit) as caught:
                main()
            assert caught.value.code == 130

    def test_numpy_notice(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        """One line that is no error, only where it matters: for what decodes or encodes."""
        a = pair[0]
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(ulpack.__file__).parent.parent),
            "PYTHONWARNINGS": "error::UserWarning",
            "ULPACK_LIBRARY": str(tmp_path / "none.so"),
            "ULPACK_BACKEND": "",
        }
        save_file({"x": torch.ones(9)}, a)
        for arguments, lines in (
            (["pack", a, "-o", tmp_path / "d.ulp"], 1),
            (["verify", tmp_path / "d.ulp"], 1),
            (["info", tmp_path / "d.ulp"], 0),
            (["--version"], 0),
        ):
            command = [sys.executable, "-m", "ulpack", *map(str, arguments)]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            assert done.returncode == 0, done.stderr
            assert len(done.stderr.splitlines()) == lines, done.stderr
            assert not lines or done.stderr.startswith("ulpack: note: using the NumPy implementation")
        environment["ULPACK_BACKEND"] = "native"
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 5
        assert "scripts/build" in done.stderr
        assert "Traceback" not in done.stderr

    def test_no_bar_on_a_dumb_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        for term, drawn in (("xterm", True), ("dumb", False), ("unknown", False)):
            monkeypatch.setenv("TERM", term)
            assert (terminal_bar() is not None) is drawn

    @pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
    def test_progress_bar_on_a_terminal(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        """It is drawn on standard error, and the cursor is visible again afterwards, also after an error."""
        import pty

        a, b = pair
        good = ["diff", str(a), str(b), "-o", str(tmp_path / "d.ulp")]
        bad = ["apply", str(b), str(tmp_path / "d.ulp"), "-o", str(tmp_path / "c")]
        for arguments, code in ((good, 0), (bad, 3)):
            master, slave = pty.openpty()
            environment = {**os.environ, "PYTHONPATH": str(Path(ulpack.__file__).parent.parent), "TERM": "xterm"}
            command = [sys.executable, "-m", "ulpack", *arguments]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment) as process:
                os.close(slave)
                shown = b""
                while True:
                    try:
                        part = os.read(master, 4096)
                    except OSError:
                        break
                    if not part:
                        break
                    shown += part
            os.close(master)
            assert process.returncode == code
            assert shown.rfind(b"\x1b[?25h") >= shown.rfind(b"\x1b[?25l")
            if code == 0:
                assert b"\x1b[?25l" in shown
                assert b"diff" in shown
                assert b"100%" in shown

    def test_as_a_program(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        a, b = pair
        environment = {**os.environ, "PYTHONPATH": str(Path(ulpack.__file__).parent.parent)}

        def program(*arguments: Any) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "ulpack", *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

        done = program("diff", a, b, "-o", tmp_path / "d.ulp")
        assert (done.returncode, done.stderr) == (0, "")  # no progress bar but on a terminal
        assert program("apply", a, tmp_path / "d.ulp", "-o", tmp_path / "c.safetensors").returncode == 0
        assert (tmp_path / "c.safetensors").read_bytes() == b.read_bytes()
        done = program("--version")
        assert done.stdout.startswith(f"ulpack {ulpack.__version__}, native backend")
        done = program("info", tmp_path / "none")
        assert done.returncode == 6
        assert done.stderr.startswith("ulpack: io: ")
        assert "Traceback" not in done.stderr
        assert "Usage" in program("--help").stdout


def test_folders_with_tensors_of_one_name_in_several_files(tmp_path: Path) -> None:
    """Names get prefixes then, and the headers come back as they were."""
    from safetensors.numpy import save_file as save_arrays

    rng = np.random.default_rng(5)
    value = rng.standard_normal((50, 40)).astype("f4")
    for folder, state in (("a", value), ("b", value + np.float32(1e-3))):
        for place in ("m.safetensors", "sub/other.safetensors", "third/other.safetensors"):
            (tmp_path / folder / place).parent.mkdir(parents=True, exist_ok=True)
            save_arrays({"x": state, "y": state[:3]}, tmp_path / folder / place)
    for arguments in (["diff", "a", "b", "-o", "d.ulp"], ["apply", "a", "d.ulp", "-o", "c"]):
        subprocess.run([sys.executable, "-m", "ulpack", *arguments], cwd=tmp_path, check=True, capture_output=True)
    for file in (tmp_path / "b").rglob("*.safetensors"):
        assert (tmp_path / "c" / file.relative_to(tmp_path / "b")).read_bytes() == file.read_bytes()


class _Short(io.RawIOBase):
    """A raw file that takes at most 1,000 bytes at a time."""

    def __init__(self) -> None:
        self.got = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # type: ignore[override]
        taken = bytes(data[:1000])
        self.got += taken
        return len(taken)


def test_file_objects_that_take_less_than_they_are_given() -> None:
    state = {"x": np.random.default_rng(6).standard_normal(20000)}
    whole, short = io.BytesIO(), _Short()
    ulpack.save_delta(state, whole)
    ulpack.save_delta(state, short)  # type: ignore[arg-type]
    assert bytes(short.got) == whole.getvalue()
