"""Interleaved, checked runs of several codecs on one pair."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .codecs import Codec, NotForThis, Session
from .codecs.codec import Settings
from .pairs import Data

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass
class Result:
    """What one codec did with one pair. Times are seconds, one for each run that counts."""

    pair: str
    part: str
    kind: str
    threads: str
    codec: str
    raw_nbytes: int
    weights: int
    unchanged: float
    nbytes: int = 0
    stored: int = 0
    encode: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    problem: str = ""
    """Why there are no figures, or why they do not count."""

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.nbytes / max(self.weights, 1)

    @property
    def encode_speed(self) -> float:
        return self._speed(self.encode)

    @property
    def decode_speed(self) -> float:
        return self._speed(self.decode)

    def _speed(self, seconds: list[float]) -> float:
        """GB/s of target bytes, at the median; 0 if unknown."""
        middle = statistics.median(seconds) if seconds else 0.0
        return self.raw_nbytes / middle / 1e9 if middle else 0.0

    def record(self) -> dict[str, Any]:
        speeds = {"encode_gb_s": self.encode_speed, "decode_gb_s": self.decode_speed}
        return {**vars(self), "bits_per_weight": self.bits_per_weight, **speeds, "exact": not self.problem}


def measure(
    data: Data, codecs: list[Codec], settings: Settings, threads: str, runs: int, slow_runs: int, clock: str
) -> list[Result]:
    """Run every codec once for warmth, then `runs` times in turn; each run is compared bit for bit."""
    results, active = [], []
    for codec in codecs:
        result = Result(
            data.name, data.part, data.kind, threads, codec.name, data.raw_nbytes, data.weights, data.unchanged
        )
        results.append(result)
        try:
            session = codec.prepare(data, settings)
        except NotForThis as reason:
            result.problem = str(reason)
            continue
        result.stored = session.stored
        active.append((codec, session, result))
    with quiet():
        for run in range(runs + 1):
            first = run % max(len(active), 1)
            for codec, session, result in active[first:] + active[:first]:
                if not result.problem:
                    once(codec, session, result, run, slow_runs, CLOCKS[clock])
    for _, session, _ in active:
        session.close()
    return results


def once(codec: Codec, session: Session, result: Result, run: int, slow_runs: int, clock: Callable[[], float]) -> None:
    # The first run of a slow encoder counts: it is too long for the state of the caches to matter.
    encodes = run < slow_runs if codec.slow else True
    try:
        if encodes:
            session.before_encode()
            start = clock()
            session.encode()
            seconds = clock() - start
            if codec.slow or run > 0:
                result.encode.append(seconds)
            result.nbytes = session.nbytes()
        session.before_decode()
        start = clock()
        session.decode()
        seconds = clock() - start
        if run > 0:
            result.decode.append(seconds)
        if not session.exact():
            result.problem = "NOT EXACT"
    except Exception as error:  # a peer that fails is a finding, not the end
        result.problem = f"failed: {type(error).__name__}: {error}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection of Python's in between."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_memory() -> None:
    """Let the C library keep freed memory, so that codecs which allocate their output do not pay for new pages."""
    m_trim_threshold, m_mmap_max = -1, -4
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(m_mmap_max, 0)
        mallopt(m_trim_threshold, (1 << 31) - 1)
