"""Reader of CTranslate2's ``model.bin``, in numpy alone.

The layout is that of the converter in CTranslate2's own ``specs/model_spec.py`` (binary
version 6, little endian): u32 version; spec name; u32 revision; u32 count; per variable its
name, u8 rank, u32 dimensions, u8 data type, u32 byte count and the bytes; then u32 count of
aliases, each an alias and the name it stands for. A string is a u16 length and that many
bytes, of which the last is NUL.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from omni_bench.errors import AccuracyError

BINARY_VERSION = 6
# CTranslate2's DataType numbers. 5 is bfloat16, which numpy does not have.
DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}

_MAX_VARIABLES = 20_000
_MAX_RANK = 8
_MAX_NAME_BYTES = 512


@dataclass(frozen=True)
class Ct2Model:
    """One ``model.bin``: ``variables`` maps a name to its array (aliases share the array)."""

    spec_name: str
    revision: int
    variables: dict[str, np.ndarray]


def read_model(stream: BinaryIO, size_bytes: int, label: str) -> Ct2Model:
    """Read a whole ``model.bin`` of ``size_bytes`` bytes from ``stream``.

    Every length is checked against what is left of the file before anything of that length is
    read. ``label`` names the file in messages. Raises :class:`AccuracyError` for another
    version, a truncated or overlong file, an unknown data type, a byte count that does not
    match the shape, a repeated name, or an alias without a target.
    """
    reader = _Reader(stream, size_bytes, label)
    version = reader.unsigned(4, "version")
    if version != BINARY_VERSION:
        raise reader.error(f"binary version {version}, can read only version {BINARY_VERSION}")
    spec_name = reader.string("spec name")
    revision = reader.unsigned(4, "revision")
    variables: dict[str, np.ndarray] = {}
    for index in range(reader.count("variables")):
        name = reader.string(f"name of variable {index}")
        if name in variables:
            raise reader.error(f"variable {name!r} appears twice")
        variables[name] = _read_array(reader, name)
    for index in range(reader.count("aliases")):
        alias = reader.string(f"alias {index}")
        target = reader.string(f"target of alias {index}")
        if alias in variables:
            raise reader.error(f"alias {alias!r} has the name of another variable")
        if target not in variables:
            raise reader.error(f"alias {alias!r} stands for {target!r}, which is not in the file")
        variables[alias] = variables[target]
    if reader.left_bytes:
        raise reader.error(f"{reader.left_bytes} bytes are left after the last alias")
    return Ct2Model(spec_name=spec_name, revision=revision, variables=variables)


def _read_array(reader: _Reader, name: str) -> np.ndarray:
    rank = reader.unsigned(1, f"rank of {name}")
    if rank > _MAX_RANK:
        raise reader.error(f"variable {name!r} has rank {rank}, at most {_MAX_RANK} is allowed")
    shape = tuple(reader.unsigned(4, f"dimension of {name}") for _ in range(rank))
    type_id = reader.unsigned(1, f"data type of {name}")
    if type_id not in DTYPES:
        raise reader.error(f"variable {name!r} has data type {type_id}, valid are {sorted(DTYPES)}")
    dtype = np.dtype(DTYPES[type_id])
    stored_bytes = reader.unsigned(4, f"byte count of {name}")
    # Python integers do not overflow, so four huge dimensions cannot wrap round to a small product.
    expected_bytes = math.prod(shape) * dtype.itemsize
    if stored_bytes != expected_bytes:
        raise reader.error(
            f"variable {name!r} of shape {list(shape)} and type {dtype.name} "
            f"needs {expected_bytes} bytes, the file says {stored_bytes}"
        )
    # A bytearray, so that the array is writable: torch shares memory only with such arrays.
    data = bytearray(reader.take(stored_bytes, f"data of {name}"))
    return np.frombuffer(data, dtype=dtype).reshape(shape)


class _Reader:
    """Takes bytes off a stream, never more than the file is known to hold."""

    def __init__(self, stream: BinaryIO, size_bytes: int, label: str) -> None:
        self._stream = stream
        self._label = label
        self.left_bytes = size_bytes

    def error(self, what: str) -> AccuracyError:
        return AccuracyError(f"{self._label} is not a CTranslate2 model that can be read: {what}")

    def take(self, count: int, what: str) -> bytes:
        if count > self.left_bytes:
            raise self.error(f"{what} needs {count} bytes, {self.left_bytes} are left")
        data = self._stream.read(count)
        if len(data) != count:
            raise self.error(f"{what} needs {count} bytes, the file ended after {len(data)}")
        self.left_bytes -= count
        return data

    def unsigned(self, width_bytes: int, what: str) -> int:
        return int.from_bytes(self.take(width_bytes, what), "little")

    def count(self, what: str) -> int:
        count = self.unsigned(4, f"count of {what}")
        if count > _MAX_VARIABLES:
            raise self.error(f"{count} {what}, at most {_MAX_VARIABLES} are allowed")
        return count

    def string(self, what: str) -> str:
        (length,) = struct.unpack("<H", self.take(2, f"length of the {what}"))
        if not 1 <= length <= _MAX_NAME_BYTES:
            raise self.error(f"{what} has {length} bytes, 1 to {_MAX_NAME_BYTES} are allowed")
        data = self.take(length, what)
        if data[-1] != 0 or not data.isascii() or 0 in data[:-1]:
            raise self.error(f"{what} is not an ASCII string that ends with one NUL: {data[:40]!r}")
        return data[:-1].decode("ascii")
