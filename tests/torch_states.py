"""Torch states and comparisons for the tests."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

QUANTISED = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}
DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)} - QUANTISED, key=str)
"""Every dtype of this torch that is not quantised."""

SHAPES = ((), (0,), (3, 0, 2), (7,), (5, 3), (2, 3, 4))


def bits(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in row-major order, as bytes."""
    tensor = tensor.detach().cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.dtype.itemsize)
    if width is not None:
        tensor = tensor.view(width)
    tensor = tensor.contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def random_tensor(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Random bit patterns: NaN payloads, subnormals and infinities among them."""
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype is torch.bool:
        raw &= 1
    return _from_bytes(raw, dtype, shape)


def nearby(tensor: torch.Tensor, share: float = 0.3, seed: int = 1) -> torch.Tensor:
    """A tensor some of whose bytes have changed a little."""
    raw = np.frombuffer(bits(tensor), np.uint8).copy()
    rng = np.random.default_rng(seed)
    raw ^= (rng.random(raw.size) < share).astype(np.uint8)
    return _from_bytes(raw, tensor.dtype, tuple(tensor.shape))


def _from_bytes(raw: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    memory = torch.empty(raw.size, dtype=torch.uint8)
    memory.numpy()[:] = raw
    return memory.view(dtype).view(shape)


def assert_same(left: Any, right: Any, place: str = "state") -> None:
    """Same nest: types, keys in order, values and every bit of tensors and floats."""
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        assert isinstance(left, torch.Tensor), place
        assert isinstance(right, torch.Tensor), place
        assert left.dtype == right.dtype, place
        assert left.shape == right.shape, place
        assert bits(left) == bits(right), place
        return
    assert type(left) is type(right), (place, type(left), type(right))
    if isinstance(left, dict):
        assert list(left) == list(right), place
        for key in left:
            assert_same(left[key], right[key], f"{place}[{key!r}]")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), place
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            assert_same(one, other, f"{place}[{index}]")
    elif isinstance(left, (np.ndarray, np.generic)):
        assert left.dtype == right.dtype, place
        assert left.shape == right.shape, place
        assert left.tobytes() == right.tobytes(), place
    elif isinstance(left, float):
        assert left.hex() == right.hex(), place
    else:
        assert left == right, place


def digest(state: dict[str, torch.Tensor]) -> str:
    """Hash of all values of a flat state."""
    return hashlib.sha256(b"".join(bits(tensor) for tensor in state.values())).hexdigest()


def steps(count: int = 2, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Weights of a small model after each of some optimizer steps."""
    generator = torch.Generator().manual_seed(seed)
    weights = {
        "embed.weight": torch.randn(64, 32, generator=generator),
        "block.0.weight": torch.randn(96, 32, generator=generator) / 6,
        "block.0.bias": torch.zeros(96),
        "norm.weight": torch.ones(32),
        "scale": torch.tensor(0.125),
    }
    result = []
    for _ in range(count):
        weights = {
            name: value * (1 - 1e-5) - 1e-3 * torch.sign(torch.randn(value.shape, generator=generator))
            for name, value in weights.items()
        }
        result.append({name: value.to(dtype) for name, value in weights.items()})
    return result


def small_model() -> torch.nn.Module:
    """A model with an embedding tied to its head."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 20, bias=False))
    model[2].weight = model[0].weight
    return model


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """Some steps on random batches drawn from torch's generator; the loss of each."""
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 20, (4, 6))
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
