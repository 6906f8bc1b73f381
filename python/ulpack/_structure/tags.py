"""Wire constants of the structure (go/FORMAT.md, "Structure")."""

from __future__ import annotations

# First byte of a structure. The empty structure is a flat dict of torch tensors.
FLAT_NUMPY = 0x01  # a flat dict of NumPy arrays
FLAT_ORDERED = 0x02  # a flat OrderedDict of torch tensors
VALUE = 0x03  # a value
IMAGE = 0x04  # an image of the files the state came from, then a value

# Values.
NONE = 0x00
FALSE = 0x01
TRUE = 0x02
INT = 0x03  # varint v
NEGATIVE = 0x04  # varint v: -1 - v
BIG_INT = 0x05  # block, magnitude little-endian
BIG_NEGATIVE = 0x06  # block, -1 - magnitude
FLOAT = 0x07  # f64
COMPLEX = 0x08  # f64 real, f64 imaginary
STR = 0x09  # block, UTF-8 (lone surrogates as three bytes)
BYTES = 0x0A  # block
BYTEARRAY = 0x0B  # block
LIST = 0x0C  # varint n, n values
TUPLE = 0x0D
SET = 0x0E
FROZENSET = 0x0F
DICT = 0x10  # varint n, entries
ORDERED_DICT = 0x11
COUNTER = 0x12
DEFAULT_DICT = 0x13  # u8 factory, varint n, entries
DEQUE = 0x14  # value maxlen, varint n, n values
TORCH_SIZE = 0x15  # varint n, n varints
TORCH_DTYPE = 0x16  # block, name
TORCH_DEVICE = 0x17  # block, name
NUMPY_SCALAR = 0x18  # block dtype name, block bytes
NUMPY_DTYPE = 0x19  # block dtype name
INT_RANGE = 0x1A  # varint first, varint n: the list first, first + 1, ..
PACKED_LIST = 0x1B  # u8 width, varint n, n * width bytes: a list of unsigned ints
PACKED_TUPLE = 0x1C

# Tensors.
NEXT_TORCH = 0x20  # the next tensor of the file
NEXT_NUMPY = 0x21
NEXT_SWAPPED = 0x22
TIED = 0x23  # varint index: a tensor that was met before
QUANTISED = 0x24
FLATTENED = 0x25

# Entries of a dict beside key, value pairs.
RUN_TORCH = 0x30  # varint r: r tensors whose keys are the ends of their names
RUN_NUMPY = 0x31

# Kinds of tensor leaf.
KIND_TORCH = 0
KIND_NUMPY = 1
KIND_SWAPPED = 2  # a NumPy array in the byte order that is not little-endian

FACTORIES: tuple[type | None, ...] = (None, dict, list, int, float, set, str, bool, tuple)
"""Default factories of a defaultdict, by code."""

KEY_TAGS = frozenset(
    (
        *(NONE, FALSE, TRUE, INT, NEGATIVE, BIG_INT, BIG_NEGATIVE, FLOAT, COMPLEX, STR, BYTES, TUPLE, FROZENSET),
        *(PACKED_TUPLE, TORCH_SIZE, TORCH_DTYPE, TORCH_DEVICE, NUMPY_SCALAR, NUMPY_DTYPE),
    )
)
"""What a key or a member of a set may be."""

MAX_DEPTH = 128
MAX_VALUES = 1 << 24
MAX_RANGE = 1 << 20
