"""The command line of scripts/demo. Standard library only: it is read before the environment is there."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Train a small GPT on text that ships with Python, store weights and AdamW state every few steps "
        "as deltas, restore every step and compare it bit for bit, and show what it took.",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "demo-run", help="folder for files and picture")
    parser.add_argument("--steps", type=at_least(2), default=200, help="steps of training")
    parser.add_argument("--every", type=at_least(1), default=10, help="steps between checkpoints")
    parser.add_argument("--width", type=at_least(8), default=192, help="of the model; a multiple of the heads")
    parser.add_argument("--layers", type=at_least(1), default=4)
    parser.add_argument("--heads", type=at_least(1), default=4)
    parser.add_argument("--context", type=at_least(2), default=128, help="bytes of text that the model sees")
    parser.add_argument("--batch", type=at_least(1), default=16)
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--text", type=at_least(1), default=1_500_000, help="bytes of text to train on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--this-python", action="store_true", help="run in the Python at hand and install nothing")
    chosen = parser.parse_args(arguments)
    if chosen.width % chosen.heads:
        parser.error("--width must be a multiple of --heads")
    if 2 * chosen.every > chosen.steps:
        parser.error("--steps must be at least twice --every: a delta needs two checkpoints")
    return chosen


def at_least(least: int) -> type[int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return value

    return number  # type: ignore[return-value]
