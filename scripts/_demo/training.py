"""A training run whose whole state can be taken out and put back."""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from torch.nn import functional

from . import text
from .model import BYTES, GPT


class Training:
    """Model, AdamW, schedule and the source of batches."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        torch.manual_seed(chosen.seed)
        self.steps, self.batch, self.context = chosen.steps, chosen.batch, chosen.context
        self.text = text.load(chosen.text)
        self.model = GPT(chosen.width, chosen.layers, chosen.heads, chosen.context)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=chosen.rate, betas=(0.9, 0.95), weight_decay=0.1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.batches = torch.Generator().manual_seed(chosen.seed)
        self.done = 0

    def _rate(self, step: int) -> float:
        """A short warm-up, then a cosine down to a fiftieth."""
        warm = max(self.steps // 20, 1)
        if step < warm:
            return (step + 1) / warm
        return 0.51 + 0.49 * math.cos(math.pi * (step - warm) / max(self.steps - warm, 1))

    def step(self) -> float:
        """One step; returns the loss in nats a byte."""
        starts = torch.randint(len(self.text) - self.context, (self.batch,), generator=self.batches)
        tokens = torch.stack([self.text[start : start + self.context + 1] for start in starts.tolist()])
        logits = self.model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.reshape(-1, BYTES), tokens[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on. The tensors are those of the run, not copies."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "batches": self.batches.get_state(),
            "done": self.done,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.batches.set_state(state["batches"])
        self.done = state["done"]
