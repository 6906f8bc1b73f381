"""The demonstration; `scripts/demo` is the command."""
