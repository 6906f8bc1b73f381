"""The C ABI, from C: builds and runs test_abi.c, and holds capi/ulpack.h to the standards of C and C++."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ulpack
from ulpack._backend import library

TESTS = Path(__file__).resolve().parent
HEADER = TESTS.parent / "capi" / "ulpack.h"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="test_abi.c is written for POSIX")


def compiler(*names: str, zig: str) -> list[str]:
    """A C or C++ compiler that makes programs: the first of `names` that does, else zig."""
    candidates = [shlex.split(os.environ.get(name, "")) if name.isupper() else [name] for name in names]
    if importlib.util.find_spec("ziglang"):
        candidates.append([sys.executable, "-m", "ziglang", zig])
    probe = ["-x", "c++" if zig == "c++" else "c", "-o", os.devnull, "-"]
    for command in candidates:
        if command and shutil.which(command[0]):
            source = "#include <string.h>\nint main(void) { return 0; }\n"
            if subprocess.run([*command, *probe], input=source, text=True, capture_output=True).returncode == 0:
                return command
    pytest.fail(f"no {zig} compiler: none of {names} works; `pip install ziglang` brings one")


@pytest.fixture(scope="module")
def cc() -> list[str]:
    return compiler("CC", "cc", "gcc", "clang", zig="cc")


@pytest.fixture(scope="module")
def cxx() -> list[str]:
    return compiler("CXX", "c++", "g++", "clang++", zig="c++")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_c_program(cc: list[str], tmp_path: Path) -> None:
    program = tmp_path / "test_abi"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", f"-I{HEADER.parent}"]
    run(*cc, *flags, "-o", program, TESTS / "test_abi.c", "-ldl", "-lpthread")
    assert run(program, library.path()).endswith("all C ABI tests passed\n")


@pytest.mark.parametrize("standard", ["c99", "c11", "c17"])
def test_header_is_c(cc: list[str], tmp_path: Path, standard: str) -> None:
    source = tmp_path / "header.c"
    source.write_text('#include "ulpack.h"\n#include "ulpack.h"\nint main(void) { return ULP_OK; }\n')
    run(*cc, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}", "-c", "-o",
        tmp_path / "header.o", source)  # fmt: skip


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_header_is_cxx(cxx: list[str], tmp_path: Path, standard: str) -> None:
    source = tmp_path / "header.cc"
    source.write_text('#include "ulpack.h"\nint main() { return sizeof(ulp_tensor) == 128 ? ULP_OK : 1; }\n')
    run(*cxx, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}", "-c", "-o",
        tmp_path / "header.o", source)  # fmt: skip


def test_c_program_knows_every_function() -> None:
    declared = re.findall(r"^ULP_API [^;(]*?(ulp_\w+)\(", HEADER.read_text(), re.MULTILINE)
    used = re.findall(r"X\((ulp_\w+)\)", (TESTS / "test_abi.c").read_text())
    assert len(declared) == len(set(declared)) == 10
    assert sorted(used) == sorted(declared)


def test_version_is_that_of_the_package() -> None:
    native = ctypes.CDLL(str(library.path()))
    buffer, needed = ctypes.create_string_buffer(1 << 16), ctypes.c_uint64()
    assert native.ulp_info(buffer, ctypes.c_uint64(len(buffer)), ctypes.byref(needed), None) == 0
    assert json.loads(buffer.raw[: needed.value])["version"] == ulpack.__version__
