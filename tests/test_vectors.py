"""The golden vectors: files of format 1.0 that every version reads, and files that every version rejects.

``scripts/vectors`` adds new ones; those that are there never change.
"""

from __future__ import annotations

import json
from typing import Any

import native_abi
import numpy as np
import pytest
import vector_recipes as recipes
from raw_tensors import Item, Tensor
from ulpack import errors, reference

SIDES = [pytest.param(reference, id="numpy"), pytest.param(native_abi, id="native")]
FOLDER = recipes.VECTORS
VECTORS = json.loads((FOLDER / "index.json").read_text("utf-8"))
REJECTS = json.loads((FOLDER / "reject" / "index.json").read_text("utf-8"))


def each(entries: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(entry, id=entry["name"]) for entry in entries]


# The library writes what version 2 of the encoder does.
ENCODES = [
    pytest.param(side, v, id=f"{v['name']}-{name}")
    for v in VECTORS
    if v["canonical"]
    for side, name in ((reference, "numpy"), (native_abi, "native"))
    if side is reference or v["index"]["encoder"] == 2
]


def items_of(vector: dict[str, Any]) -> list[Item]:
    return [Item(i, recipes.make(t["reference"])) for i, t in enumerate(vector["tensors"])]


def read(vector: dict[str, Any]) -> bytes:
    return (FOLDER / f"{vector['name']}.ulp").read_bytes()


def tensors_of(vector: dict[str, Any], values: list[np.ndarray], refs: list[np.ndarray | None]) -> list[Tensor]:
    """The tensors to save again, from a vector's index and its values."""
    tensors = []
    for entry, value, ref in zip(vector["index"]["tensors"], values, refs, strict=True):
        shape = tuple(entry["shape"])
        name = "" if entry["reference"] is None else entry["reference"]["name"]
        fields = entry["name"], entry["dtype"], entry["dtype_name"], entry["itemsize"], shape, value, ref, name
        tensors.append(Tensor(*fields))
    return tensors


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("vector", each([v for v in VECTORS if v["kept"]]))
def test_decodes(side: Any, vector: dict[str, Any]) -> None:
    file = read(vector)
    assert recipes.digest(file) == vector["sha256"]
    assert side.index(file) == vector["index"]
    values = side.load(file, items_of(vector))
    assert [recipes.digest(value) for value in values] == [t["target_sha256"] for t in vector["tensors"]]


@pytest.mark.parametrize(("side", "vector"), ENCODES)
def test_encodes(side: Any, vector: dict[str, Any]) -> None:
    items = items_of(vector)
    if vector["kept"]:
        values = reference.load(read(vector), items)
    else:
        values = [recipes.make(t["target"]) for t in vector["tensors"]]
    assert [recipes.digest(value) for value in values] == [t["target_sha256"] for t in vector["tensors"]]
    index = vector["index"]
    options = {"encoder": index["encoder"]} if side is reference else {}
    file = side.save(
        tensors_of(vector, values, [item.ref for item in items]),
        structure=recipes.from_base64(index["structure"]),
        metadata=index["metadata"].encode(),
        effort=index["effort"],
        **options,
    )
    assert recipes.digest(file) == vector["sha256"]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("reject", each(REJECTS))
def test_rejects(side: Any, reject: dict[str, Any]) -> None:
    file = (FOLDER / "reject" / f"{reject['name']}.ulp").read_bytes()
    assert recipes.digest(file) == reject["sha256"]
    ref = recipes.make(reject["reference"])
    with pytest.raises(errors.UlpackError) as caught:
        side.load(file, [Item(i, ref) for i in range(len(side.index(file)["tensors"]))])
    # A later version may give a reserved value a meaning; the file then breaks a rule of that version.
    assert caught.value.kind in (("unsupported", "corrupt") if reject["kind"] == "unsupported" else (reject["kind"],))


def test_every_file_is_listed() -> None:
    listed = {"index.json", "reject", *(f"{v['name']}.ulp" for v in VECTORS if v["kept"])}
    listed |= {
        t["reference"]["file"] for v in VECTORS for t in v["tensors"] if t["reference"] and "file" in t["reference"]
    }
    assert {path.name for path in FOLDER.iterdir()} == listed
    listed = {"index.json", *(f"{r['name']}.ulp" for r in REJECTS)}
    assert {path.name for path in (FOLDER / "reject").iterdir()} == listed


def test_coverage() -> None:
    """Every plan, dtype, predictor, token map, kind of tables and context occurs."""
    entries = [t for v in VECTORS for t in v["index"]["tensors"]]
    details = [t["detail"] for t in entries if t["detail"]]
    assert {t["plan"] for t in entries} == {0, 1, 2, 3}
    assert {t["dtype"] for t in entries} == {0, *reference.dtypes.DTYPES}
    assert {(d["predictor"], d["token_map"], d["tables"]) for d in details} == {
        *((predictor, token_map, kind) for predictor in (0, 1) for token_map in (0, 2) for kind in (0, 1)),
        *((0, 1, kind) for kind in (0, 1)),
    }
    assert {d["context_part"] for d in details} == {0, 1, 2}
    assert {d["table_log"] for d in details} >= {8, 9, 10, 11, 12}
    assert {d["plane_bits"] for d in details} >= {0, 8, 16, 24, 40, 48}
    assert {r["kind"] for r in REJECTS} == {"corrupt", "truncated", "reference", "unsupported", "limit"}
