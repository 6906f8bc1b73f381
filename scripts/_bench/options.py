"""The command line of scripts/bench. Standard library only: it is read before the environment is there."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo-run" / "pairs"

PEERS = ("zipnn==0.5.4", "zstandard>=0.22")
"""Packages of the peers that can be installed by name."""

CODECS = ("ulpack", "files", "zipnn", "zstd-3", "zstd-19", "fm-delta")
PARTS = ("masters=master/*",)

EPILOG = """\
A pair is two .safetensors files of one folder, the second one against the first: all neighbours of a folder, in natural
order, or what a sizes.csv in the corpus lists. What is timed:

  ulpack    one call that writes the whole file to memory, and one that reads it: planner, checksums, index and all;
            the reference is read by it. Buffers are warm, nothing is converted beforehand.
  files     save_delta and load_delta with a file in --scratch: Python, system calls and fsync included. The bytes are
            those of ulpack.
  zipnn     ZipNN on the XOR, one call for each dtype, its tensors joined. The XOR is not timed.
  zstd-N    Zstandard on the XOR with its bytes grouped by significance, joined likewise. Neither is timed.
  fm-delta  FM-Delta, tensor by tensor, where its package `fmd` is installed; bfloat16 as 16-bit halves.

zstd-19 is run with one thread only, and left out of the tables for several: it encodes some MB/s, so nobody chooses it
for its speed, and its size is known by then. FM-Delta has no threads.

Every run encodes, decodes and compares bit for bit; peers get fresh copies of their input each time (ZipNN writes to
its input), outside of the timing, and ulpack's inputs are hashed before and after.
Tensors of a dtype that a peer does not know count as stored; a pair made of such a dtype is left out for that peer.
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.description = "Sizes and speeds of ulpack and its peers on pairs of checkpoints."
    parser.add_argument(
        "corpus",
        nargs="?",
        type=Path,
        default=Path(os.environ.get("ULPACK_CORPUS") or DEMO),
        help="a folder of pairs, or of folders of pairs (default: $ULPACK_CORPUS, else what scripts/demo left)",
    )
    parser.add_argument("--only", action="append", metavar="GLOB", help="only pairs whose name matches; repeatable")
    parser.add_argument("--codecs", default=",".join(CODECS), metavar="A,B", help="default: %(default)s")
    parser.add_argument(
        "--runs", type=positive, default=5, help="interleaved runs, of which medians are shown (default: 5)"
    )
    parser.add_argument(
        "--slow-runs",
        type=positive,
        default=1,
        help="times that zstd-19 encodes; its decoding runs as often as the others (default: 1)",
    )
    parser.add_argument("--threads", choices=("one", "all", "both"), default="both")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time of the process, for one thread on a busy machine",
    )
    parser.add_argument("--effort", choices=("fast", "default", "max"), default="default", help="of ulpack")
    parser.add_argument(
        "--part",
        action="append",
        metavar="LABEL=GLOB",
        help=f"tensors of a pair that are measured on their own, too; repeatable (default: {', '.join(PARTS)})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to a file, too")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write tables between the marks of a file like README.md"
    )
    parser.add_argument(
        "--sizes", type=Path, metavar="CSV", help="compare the files' sizes with a column of this table"
    )
    parser.add_argument("--column", default="goal", help="of --sizes (default: %(default)s)")
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="instead of timing: list the tensors where ulpack is larger than stored + 16 bytes, the paper's model, or "
        "the smallest of ZipNN, zstd-19 and FM-Delta + 32 bytes",
    )
    parser.add_argument(
        "--kernels", action="store_true", help="instead of timing codecs: ns a weight of each stage, beside memcpy"
    )
    parser.add_argument("--scratch", type=Path, help="folder for `files` (default: memory where there is /dev/shm)")
    parser.add_argument("--this-python", action="store_true", help="run in the Python at hand and install nothing")
    chosen = parser.parse_args(arguments)
    chosen.codecs = [name.strip() for name in chosen.codecs.split(",") if name.strip()]
    unknown = [name for name in chosen.codecs if name not in CODECS]
    if unknown:
        parser.error(f"unknown codec {unknown[0]!r}; there are {', '.join(CODECS)}")
    chosen.parts = dict(part.partition("=")[::2] for part in chosen.part or PARTS)
    return chosen


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
