"""``ulpack`` and ``python -m ulpack``."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from ._cli.app import run

    run()


if __name__ == "__main__":
    main()
