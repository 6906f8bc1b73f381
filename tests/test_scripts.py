"""The README's examples, scripts/demo and scripts/bench, as a newcomer would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = shlex.split("--steps 4 --every 2 --width 16 --layers 1 --heads 2 --context 16 --batch 2 --text 20000")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"the README has no {language}"
    return found


def environment() -> dict[str, str]:
    """For a script in this Python, whether the package is installed or on the path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def script(name: str, *arguments: Any, succeeds: bool = True) -> str:
    command = [sys.executable, str(ROOT / "scripts" / name), *map(str, arguments)]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (result.returncode == 0) == succeeds, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.usefixtures("native")
def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    state = torch.random.get_rng_state()
    exec(compile("\n".join(blocks("python")), "README.md", "exec"), {"__name__": "readme"})
    torch.random.set_rng_state(state)
    printed = capsys.readouterr().out
    assert "ratio" in printed
    assert "reference step20.ulp model.0.weight" in printed
    assert "1 tensor lost" in printed
    assert "needs (10,)" in printed
    weights = {"0.weight": torch.randn(64, 64)}
    save_file(weights, tmp_path / "tuned.safetensors", {"format": "pt"})
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "ulpack"
        result = subprocess.run(
            [sys.executable, "-m", "ulpack", *arguments],
            env=environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    same = [("tuned", "again"), ("base", "base-again")]
    for first, second in same:
        files = [(tmp_path / f"{name}.safetensors").read_bytes() for name in (first, second)]
        assert files[0] == files[1]
    array = np.load(tmp_path / "weight.npy", allow_pickle=False)
    assert array.tobytes() == weights["0.weight"].numpy().tobytes()


def test_readme_names_what_is_there() -> None:
    """Paths in the table of the layout exist."""
    table = README.partition("## How it is laid out")[2].partition("\n## ")[0]
    names = [
        name for quoted in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", quoted)
    ]
    assert len(names) > 8
    parent = ""
    for name in names:
        folder, brace, inner = name.partition("{")
        for one in inner.rstrip("}").split(",") if brace else [name]:
            path = folder + one if brace else one
            if "/" not in path and not (ROOT / path).exists():
                path = f"{parent}/{path}"  # a neighbour of the name before it
            assert (ROOT / path).exists(), path
        parent = str(Path(name).parent)


@pytest.mark.usefixtures("native")
def test_demo_and_bench(tmp_path: Path) -> None:
    shown = script("demo", "--this-python", "--output", tmp_path, *TINY)
    assert "restored 2 steps, every bit compared" in shown
    assert "ended in the same bits" in shown
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    rows = re.findall(r"^ +(\d+) +([\d,]+) +([\d,]+) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$", shown, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [2, 4]
    for step, raw, stored in rows:
        size = (tmp_path / "steps" / f"step{int(step):05}.ulp").stat().st_size
        assert size == int(stored.replace(",", "")) < int(raw.replace(",", ""))
    bench_the_demo(tmp_path)


def bench_the_demo(folder: Path) -> None:
    report = folder / "bench.json"
    markdown = folder / "tables.md"
    markdown.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n")
    arguments = ["--this-python", folder / "pairs", "--runs", 1, "--json", report, "--markdown", markdown]
    shown = script("bench", *arguments, "--scratch", folder)
    record = json.loads(report.read_text())
    results = record["results"]
    pairs = {result["pair"] for result in results}
    assert len(pairs) == 5
    present = {"ulpack", "files", "zipnn", "zstd-3", "zstd-19", "fm-delta"} - set(record["machine"]["missing"])
    for reason in record["machine"]["missing"].values():
        assert f"missing: {reason}" in shown
    assert {(result["pair"], result["codec"]) for result in results} == {(p, c) for p in pairs for c in present}
    for result in results:
        assert result["exact"], result
        assert result["encode_gb_s"] > 0
        assert result["decode_gb_s"] > 0
        assert 0 < result["bits_per_weight"] == 8 * result["nbytes"] / result["weights"]
    sizes = {(r["pair"], r["part"], r["codec"]): r["nbytes"] for r in results}
    assert {size - sizes[pair, part, "files"] for (pair, part, c), size in sizes.items() if c == "ulpack"} == {0}
    masters = [result for result in results if result["part"] == "masters"]
    assert {result["kind"] for result in masters} == {"fp32 masters"}
    text = markdown.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert all(pair in text for pair in pairs)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two small pairs of random bfloat16 weights; one of them is listed in a table of sizes."""
    generator = torch.Generator().manual_seed(3)
    for name in ("listed", "other"):
        folder = tmp_path / "corpus" / name
        folder.mkdir(parents=True)
        first = torch.randn(64, 64, generator=generator)
        second = first + 1e-3 * torch.randn(64, 64, generator=generator)
        for step, tensor in (("9", first), ("10", second)):
            save_file({"w": tensor.bfloat16(), "n": torch.tensor(int(step))}, folder / f"step{step}.safetensors")
    (tmp_path / "corpus" / "sizes.csv").write_text("pair,from,to,goal,small\nlisted,9,10,100000,10\n")
    return tmp_path / "corpus"


@pytest.mark.usefixtures("native")
def test_bench_sizes(corpus: Path) -> None:
    table = corpus / "sizes.csv"
    shown = script("bench", "--this-python", corpus, "--sizes", table)
    assert "listed 9->10" in shown
    assert "over" not in shown.split("ratio")[1]
    assert "other" not in shown
    shown = script("bench", "--this-python", corpus, "--sizes", table, "--column", "small", succeeds=False)
    assert re.search(r"listed 9->10 +over", shown)
    assert "no column" in script("bench", "--this-python", corpus, "--sizes", table, "--column", "x", succeeds=False)


@pytest.mark.usefixtures("native")
def test_bench_per_tensor(corpus: Path) -> None:
    assert "none of 4 tensors in 2 pairs" in script("bench", "--this-python", corpus, "--per-tensor")


@pytest.mark.usefixtures("native")
def test_bench_lists_a_tensor_that_loses(corpus: Path, tmp_path: Path) -> None:
    """A tensor whose bytes repeat at a distance is what zstd is good at and a model of values is not."""
    folder = tmp_path / "repeats"
    folder.mkdir()
    block = torch.randint(0, 255, (4096,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    for step in (1, 2):
        save_file({"w": torch.cat([block.roll(step)] * 3 + [block[:100]])}, folder / f"step{step}.safetensors")
    shown = script("bench", "--this-python", folder, "--per-tensor", "--codecs", "ulpack,zstd-19", succeeds=False)
    assert re.search(r"1 of 1 tensors .*\n.*\n.* w +\w+ +zstd-19 ", shown), shown


@pytest.mark.parametrize("name", ["bench", "check", "demo", "test", "vectors"])
def test_help_needs_no_environment(name: str) -> None:
    command = [sys.executable, "-S", str(ROOT / "scripts" / name), "--help"]  # -S: without installed packages
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"usage: scripts/{name} ")
    assert not result.stderr


@pytest.mark.skipif(os.name == "nt", reason="shell scripts")
@pytest.mark.parametrize("name", ["asm", "build"])
def test_help_of_shell_scripts(name: str) -> None:
    result = subprocess.run([ROOT / "scripts" / name, "--help"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert f"usage: scripts/{name} " in result.stdout


def test_a_failed_build_shows_what_go_said(tmp_path: Path) -> None:
    """Without the modules and without a network the message says so; it does not begin with the command."""
    away = {"GOMODCACHE": str(tmp_path / "modules"), "GOPROXY": "https://localhost:1", "HOME": str(tmp_path)}
    command = "import sys; sys.path.insert(0, 'python'); from _build import native; from pathlib import Path\n"
    command += "try: native.build(Path(sys.argv[1]))\nexcept native.NativeBuildError as error: print(error)"
    result = subprocess.run(
        [sys.executable, "-c", command, tmp_path / "library"],
        env={**os.environ, **away},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    lines = result.stdout.splitlines()
    assert "github.com/" in lines[0], result.stdout + result.stderr
    assert "the first build needs the network" in lines[-2]
    assert "ULPACK_PURE_PYTHON=1" in lines[-1]
    assert not list(tmp_path.glob("**/.ulpack-build-*"))
