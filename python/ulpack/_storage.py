"""Whether a torch tensor's elements are all in its storage: dtype and shape promise, only the storage has memory."""

from __future__ import annotations

from typing import Any


def holds_its_elements(tensor: Any) -> bool:
    """Whether the storage of a strided tensor reaches from its first to its last element.

    It does not where the storage was resized (FSDP frees parameters that way), and in quantised tensors whose elements
    are smaller than a byte: torch counts a byte for each of those.
    """
    if tensor.numel() == 0:
        return True
    last = tensor.storage_offset() + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()
