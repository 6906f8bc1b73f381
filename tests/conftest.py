"""Shared fixtures: each backend, bits of tensors, small states."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Nothing here is timed: a slow machine is no failure.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(params=["native", "reference"])
def each_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with the native library and once with the NumPy implementation."""
    monkeypatch.setenv("ULPACK_BACKEND", request.param)
    return request.param


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is about the native library: its lack is a failure."""
    monkeypatch.setenv("ULPACK_BACKEND", "native")


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    state = random.getstate()
    random.seed(20261201)
    yield
    random.setstate(state)
