"""The parts of the build that pyproject.toml cannot say: the native library and the wheel's tag."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python"))

from _build import native  # noqa: E402

# What the source distribution holds beside the Python package.
SOURCE_FILES = ("LICENSE", "README.md", "go.mod", "go.sum", "pyproject.toml", "setup.py")
SOURCE_DIRECTORIES = (".ci", "capi", "go", "python/_build", "scripts", "tests")
NOT_SOURCE = {".so", ".dylib", ".dll", ".pyc"}


class build_native(Command):
    """Puts the native library beside the Python modules (see python/_build/native.py)."""

    description = "build the native library"
    user_options: list[tuple[str, str | None, str]] = []  # noqa: RUF012
    editable_mode = False
    build_lib: str

    def initialize_options(self) -> None:
        self.build_lib = ""

    def finalize_options(self) -> None:
        self.build_lib = self.get_finalized_command("build").build_lib

    def _output(self) -> Path:
        package = native.PACKAGE if self.editable_mode else Path(self.build_lib).resolve() / "ulpack"
        return package / native.target().library

    def run(self) -> None:
        if native.pure_python():
            return
        try:
            native.build(self._output())
        except native.NativeBuildError as error:
            raise CompileError(str(error)) from None

    def get_outputs(self) -> list[str]:
        return [] if native.pure_python() else [str(self._output())]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        found = [path for path in map(ROOT.joinpath, SOURCE_FILES) if path.exists()]
        for directory in SOURCE_DIRECTORIES:
            found += (p for p in sorted((ROOT / directory).rglob("*")) if p.is_file() and p.suffix not in NOT_SOURCE)
        return [path.relative_to(ROOT).as_posix() for path in found]


class build_with_native(build):
    sub_commands = [*build.sub_commands, ("build_native", None)]  # noqa: RUF012

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)  # modules that are gone must not come back from an old build
        super().run()


class bdist_wheel_any_python(bdist_wheel):
    """One wheel serves every Python: the library is loaded with ctypes and knows nothing of the interpreter."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = native.pure_python()

    def get_tag(self) -> tuple[str, str, str]:
        if native.pure_python():
            return "py3", "none", "any"
        try:
            return "py3", "none", native.platform_tag() or super().get_tag()[2]
        except native.NativeBuildError as error:
            raise CompileError(str(error)) from None


class PlatformDistribution(Distribution):
    """Says that the package holds a library, so that it is installed where those belong."""

    def has_ext_modules(self) -> bool:
        return not native.pure_python()


setup(
    distclass=PlatformDistribution,
    cmdclass={"bdist_wheel": bdist_wheel_any_python, "build": build_with_native, "build_native": build_native},
)
