"""Put tensors into a parsed nest."""

from __future__ import annotations

import collections
from typing import Any

from .parse import Flattened, Quantised, Slot
from .torch_kinds import rebuild_flattened, rebuild_quantised

_ABSENT = object()


def resolve(root: Any, values: dict[int, Any]) -> Any:
    """The nest with ``values[i]`` in the place of tensor i.

    Entries of dicts whose tensor is not in ``values`` (salvage) are left out; elsewhere None takes their place.
    """
    result = _resolve(root, values)
    return None if result is _ABSENT else result


def _resolve(node: Any, values: dict[int, Any]) -> Any:
    kind = type(node)
    if kind is Slot:
        return values.get(node.index, _ABSENT)
    if isinstance(node, dict):
        for key in list(node):
            value = _resolve(node[key], values)
            if value is _ABSENT:
                del node[key]
            else:
                node[key] = value
        return node
    if kind is list:
        node[:] = [_or_none(_resolve(item, values)) for item in node]
        return node
    if kind is tuple:
        return tuple(_or_none(_resolve(item, values)) for item in node)
    if kind is collections.deque:
        return collections.deque((_or_none(_resolve(item, values)) for item in node), node.maxlen)
    if kind is Quantised:
        parameters, codes = _resolve(node.parameters, values), _resolve(node.codes, values)
        if codes is _ABSENT or any(part is None for part in parameters):
            return _ABSENT
        return rebuild_quantised(node.dtype, node.shape, parameters, codes)
    if kind is Flattened:
        inner = {name: _resolve(part, values) for name, part in node.inner.items()}
        if any(part is _ABSENT for part in inner.values()):
            return _ABSENT
        return rebuild_flattened(node.cls, _resolve(node.context, values), node.shape, node.stride, inner)
    return node


def _or_none(value: Any) -> Any:
    return None if value is _ABSENT else value
