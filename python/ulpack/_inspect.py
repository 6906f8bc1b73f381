"""inspect and verify: what is in a file, and whether it is sound."""

from __future__ import annotations

from typing import Any

from . import _files
from ._backend import Backend, Items, Options, Progress, Stream, select
from ._binding import Binding, bind
from ._files import PathOrFile
from ._image import image_files
from ._index import Index, located, read_index
from ._load import item_errors
from ._options import options
from ._records import BackendInfo, FileInfo, TensorInfo, VerifyReport
from ._sources import References
from .errors import CorruptError, UlpackError, UnsupportedError, WrongReferenceError

_TENSOR_ERRORS = (CorruptError, UnsupportedError, WrongReferenceError)


def inspect(path: PathOrFile | bytes) -> FileInfo:
    """The index of a file: its tensors, how each is stored, what it needs. Decodes no tensor.

    Raises:
        CorruptError, TruncatedError, UnsupportedError: the file or its index is damaged or of an unknown version.
    """
    label = _files.label(path)
    with _files.source(path) as stream:
        return file_info(read_index(select(), stream, label))


def file_info(index: Index) -> FileInfo:
    """The public record of an index."""
    raw = index.raw
    image = index.parse().image
    layout, files = image_files(image) if image is not None else ("state", ())
    tensors = tuple(
        TensorInfo(
            name=t["name"],
            dtype=dtype.name,
            shape=tuple(t["shape"]),
            raw_nbytes=t["nbytes"],
            nbytes=t["blob_nbytes"],
            offset=t["offset"],
            plan=t["plan_name"],
            fingerprint=t["fingerprint"],
            reference=t["reference"] and t["reference"]["name"],
            reference_fingerprint=t["reference"] and t["reference"]["fingerprint"],
            detail=t["detail"],
        )
        for t, dtype in zip(raw["tensors"], index.dtypes, strict=True)
    )
    return FileInfo(
        path=index.path,
        nbytes=raw["file_nbytes"],
        format_version=(raw["format"][0], raw["format"][1]),
        encoder_version=raw["encoder"],
        effort=raw["effort"],
        metadata=index.metadata(),
        kind=layout,
        files=files,
        tensors=tensors,
    )


def verify(
    path: PathOrFile | bytes,
    reference: Any = None,
    *,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> VerifyReport:
    """Check a file; with its reference, decode every tensor and compare it with its fingerprint. Writes nothing.

    Without the reference, tensors that need one are checked as far as that goes: their blobs' checksums.

    Returns:
        What was decoded and what could not be.

    Raises:
        UlpackError: the first thing that is wrong.
    """
    report = verify_with(path, References(reference), options(threads, progress))
    for error in report.bad.values():
        raise error
    return report


def verify_with(path: PathOrFile | bytes, references: References, opt: Options) -> VerifyReport:
    """Like ``verify`` with its references opened already, but damage to tensors is in the report."""
    label, backend = _files.label(path), select()
    with _files.source(path) as stream:
        index = read_index(backend, stream, label)
        index.parse()
        everything = range(len(index.names))
        binding = bind(backend, index, references, everything)
        items = Items()
        for number in everything:
            items.add(number, index.nbytes[number], binding.views.get(number), 0)
        try:
            backend.load(stream, items, opt, salvage=True, verify_only=True)
        except UlpackError as error:
            raise located(error, label, index.names) from None
        errors = item_errors(items, index)
        for number in list(errors)[:_EXPLAINED]:
            errors[number] = _explained(backend, stream, index, binding, number, opt) or errors[number]
    bad: dict[str, UlpackError] = {}
    unchecked, decoded = [], []
    for number, name in enumerate(index.names):
        found = errors.get(number)
        missing = binding.problems.get(number)
        if found is not None and not (missing is not None and isinstance(found, WrongReferenceError)):
            bad[name] = found
        elif missing is None:
            decoded.append(name)
        elif references.sources:
            bad[name] = missing
        else:
            unchecked.append(name)
    wrong = binding.different | {
        n for n, e in errors.items() if isinstance(e, WrongReferenceError) and n in binding.views
    }
    different = frozenset(index.names[number] for number in wrong)
    return VerifyReport(label, tuple(decoded), tuple(unchecked), bad, different & bad.keys())


_EXPLAINED = 16  # bad tensors that are decoded once more for the whole message; the rest have their kind and offset


def _explained(
    backend: Backend, stream: Stream, index: Index, binding: Binding, number: int, opt: Options
) -> UlpackError | None:
    """The error of one bad tensor as a load of it alone would raise it: a salvage reports only kind and offset."""
    items = Items()
    items.add(number, index.nbytes[number], binding.views.get(number), 0)
    binding.lend(items, index)
    try:
        backend.load(stream, items, opt._replace(progress=None), salvage=False, verify_only=True)
    except UlpackError as error:
        return located(error, index.path, index.names) if isinstance(error, _TENSOR_ERRORS) else None
    return None


def backend() -> BackendInfo:
    """Which implementation serves this process: the native library or NumPy; loads it if need be."""
    chosen = select()
    return BackendInfo(chosen.name, chosen.info())
