"""The version of the package, its native library and its files; nowhere else."""

__version__ = "0.1.0"
