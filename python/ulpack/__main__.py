"""``ulpack`` and ``python -m ulpack``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from ._cli.program import run

        run()
    except KeyboardInterrupt:  # before a command began
        print("ulpack: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
