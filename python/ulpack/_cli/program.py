"""The command line as a program: its arguments, and errors before and around the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from ..errors import ArgumentError
from .app import app
from .output import interrupted, print_error


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit; the program name in messages is always "ulpack"."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--json" not in given:
        app(given, prog_name="ulpack")
        sys.exit(0)
    try:
        code: Any = app(given, prog_name="ulpack", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = interrupted(True)
    except Exception as error:
        # A usage error of typer's parser, whose class is click's in some versions and its own in others.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        print_error(ArgumentError(" ".join(format_message().split())), True)
        code = getattr(error, "exit_code", 2)
    sys.exit(code or 0)
