"""How ulpack is built: the PEP 517 backend and the build of the native library. Not part of the wheel."""
