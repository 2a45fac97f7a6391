"""Reads the header of a GGUF file strictly and within bounds: every count, length and offset is checked.

The file is read, never mapped, so that a file that shrinks meanwhile cannot kill the process. Whatever
llama.cpp would refuse is refused here, and so is what it would trust although it should not.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from appliance.catalog.gguf_types import (
    ARRAY,
    ARRAY_LETTERS,
    BOOL,
    MAGIC,
    SCALARS,
    STRING,
    SUPPORTED_VERSIONS,
    TENSOR_TYPES,
    TensorType,
)
from appliance.core.errors import ModelFileError

MAX_HEADER_BYTES = 64 << 20
MAX_KEYS = 4096
MAX_TENSORS = 65_536
MAX_KEY_BYTES = 256
MAX_TENSOR_NAME_BYTES = 63
MAX_STRING_BYTES = 4 << 20
MAX_STRING_ELEMENTS = 1 << 20
MAX_ALIGNMENT = 1 << 20
DECODED_ELEMENTS = 1024
_FIRST_READ_BYTES = 1 << 20
_INT64_MAX = (1 << 63) - 1

ScalarValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array of the metadata. `values` is filled for short numeric arrays only."""

    element_type: int
    count: int
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its name, dimensions (fastest first), number format, place in the data section and size."""

    name: str
    dimensions: tuple[int, ...]
    type: TensorType
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """Everything the header says, checked against itself and the file's size."""

    version: int
    metadata: dict[str, ScalarValue | ArrayValue]
    tensors: tuple[Tensor, ...]
    alignment: int
    data_offset: int
    file_size_bytes: int


def read_header(path: Path) -> Header:
    """Read and check the header.

    Raises:
        ModelFileError: the file is missing, unreadable, truncated, hostile or not a GGUF; says where.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as exc:
        raise ModelFileError(f"{path}: cannot be opened: {_reason(exc)}") from exc
    try:
        return _HeaderReader(_Cursor(descriptor, path)).read()
    except OSError as exc:
        raise ModelFileError(f"{path}: cannot be read: {_reason(exc)}") from exc
    finally:
        os.close(descriptor)


def _reason(exc: OSError | ValueError) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)


class _Cursor:
    """A position in the header; reads ahead in growing pieces and refuses to pass the end."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path}: is not a regular file")
        self.file_size = status.st_size
        self.position = 0
        self._buffer = b""

    @property
    def left(self) -> int:
        """Bytes of the file after the position."""
        return self.file_size - self.position

    def fail(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"{self.path}: {what} (at byte {self.position})",
            hint="fetch or export the file again; `appliance verify` finds damaged files of the store",
            position=self.position,
        )

    def require(self, size: int, what: str) -> None:
        """Have the next `size` bytes in the buffer, or raise."""
        end = self.position + size
        if end <= len(self._buffer):
            return
        if end > self.file_size:
            raise self.fail(f"truncated: {what} needs {size} bytes, {self.left} are left")
        if end > MAX_HEADER_BYTES:
            raise self.fail(f"the header is larger than {MAX_HEADER_BYTES >> 20} MiB")
        self._read_ahead(end)
        if end > len(self._buffer):
            raise self.fail(f"truncated: the file ended while {what} was read")

    def _read_ahead(self, end: int) -> None:
        wanted = max(end, 4 * len(self._buffer), _FIRST_READ_BYTES)
        target = min(wanted, self.file_size, MAX_HEADER_BYTES)
        pieces = [self._buffer]
        length = len(self._buffer)
        while length < target:
            piece = os.pread(self._descriptor, target - length, length)
            if not piece:
                break
            pieces.append(piece)
            length += len(piece)
        self._buffer = b"".join(pieces)

    def unpack(self, layout: struct.Struct, what: str) -> int | float:
        self.require(layout.size, what)
        value: int | float = layout.unpack_from(self._buffer, self.position)[0]
        self.position += layout.size
        return value

    def u32(self, what: str) -> int:
        return int(self.unpack(_U32, what))

    def u64(self, what: str) -> int:
        return int(self.unpack(_U64, what))

    def take(self, size: int, what: str) -> bytes:
        self.require(size, what)
        piece = self._buffer[self.position : self.position + size]
        self.position += size
        return piece

    def text(self, limit: int, what: str) -> str:
        length = self.u64(f"the length of {what}")
        if length > limit:
            raise self.fail(f"{what} is {length} bytes long, at most {limit} are allowed")
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError as exc:
            raise self.fail(f"{what} is not UTF-8") from exc

    def skip(self, size: int, what: str) -> None:
        """Pass over bytes of the header without keeping them."""
        end = self.position + size
        if end > self.file_size:
            raise self.fail(f"truncated: {what} needs {size} bytes, {self.left} are left")
        if end > MAX_HEADER_BYTES:
            raise self.fail(f"the header is larger than {MAX_HEADER_BYTES >> 20} MiB")
        self.position = end

    def skip_strings(self, count: int, what: str) -> None:
        """Pass over `count` strings; vocabularies hold hundreds of thousands, mostly short ones."""
        match_many = _many_short_strings().match
        while count >= _STRINGS_AT_ONCE:
            if self._has(_STRINGS_AT_ONCE * (8 + _SHORT_STRING_BYTES)):
                found = match_many(self._buffer, self.position)
                if found is not None:
                    self.position = found.end()
                    count -= _STRINGS_AT_ONCE
                    continue
            self._skip_strings_singly(_STRINGS_AT_ONCE, what)
            count -= _STRINGS_AT_ONCE
        self._skip_strings_singly(count, what)

    def _has(self, size: int) -> bool:
        """Read ahead if the file has that many bytes more, and say so."""
        end = self.position + size
        if end > len(self._buffer) and end <= min(self.file_size, MAX_HEADER_BYTES):
            self._read_ahead(end)
        return end <= len(self._buffer)

    def _skip_strings_singly(self, count: int, what: str) -> None:
        unpack_from = _U64.unpack_from
        for _ in range(count):
            if self.position + 8 > len(self._buffer):
                self.require(8, what)
            length: int = unpack_from(self._buffer, self.position)[0]
            if length > MAX_STRING_BYTES:
                raise self.fail(f"an element of {what} is {length} bytes long")
            self.position += 8
            if self.position + length > len(self._buffer):
                self.skip(length, what)
            else:
                self.position += length


_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_STRINGS_AT_ONCE = 256
_SHORT_STRING_BYTES = 63


@cache
def _many_short_strings() -> re.Pattern[bytes]:
    """Match 256 length-prefixed strings of 0 to 63 bytes: a walk in C, twice as fast as a loop.

    The length byte decides the branch, so there is one way to match; the most usual lengths come first.
    """
    usual_first = [
        7,
        6,
        5,
        8,
        4,
        9,
        10,
        3,
        11,
        12,
        2,
        13,
        14,
        1,
        15,
        16,
        *range(17, _SHORT_STRING_BYTES + 1),
        0,
    ]
    branches = (
        b"\\x%02x" % length + rb"\x00" * 7 + (b".{%d}" % length if length else b"") for length in usual_first
    )
    return re.compile(b"(?:" + b"|".join(branches) + b"){%d}+" % _STRINGS_AT_ONCE, re.DOTALL)


class _HeaderReader:
    """Reads the sections of the header in their order."""

    def __init__(self, cursor: _Cursor) -> None:
        self._cursor = cursor

    def read(self) -> Header:
        cursor = self._cursor
        version = self._read_version()
        tensor_count = self._read_count("tensors", MAX_TENSORS, least_bytes=24)
        key_count = self._read_count("metadata keys", MAX_KEYS, least_bytes=13)
        metadata = self._read_metadata(key_count)
        alignment = self._alignment(metadata)
        tensors = self._read_tensors(tensor_count, alignment)
        data_offset = _padded(cursor.position, alignment)
        self._check_extent(tensors, data_offset, alignment)
        return Header(version, metadata, tensors, alignment, data_offset, cursor.file_size)

    def _read_version(self) -> int:
        cursor = self._cursor
        if cursor.file_size == 0:
            raise cursor.fail("the file is empty")
        magic = cursor.take(min(4, cursor.file_size), "the magic")
        if magic != MAGIC[: len(magic)]:
            raise cursor.fail(f"not a GGUF file: it starts with {magic!r}, not {MAGIC!r}")
        cursor.position = 0
        cursor.take(4, "the magic")
        version = cursor.u32("the version")
        if version in SUPPORTED_VERSIONS:
            return version
        if version and version & 0xFFFF == 0:
            raise cursor.fail("the file is big-endian, which is not supported")
        raise cursor.fail(f"GGUF version {version} is not supported, only versions 2 and 3 are")

    def _read_count(self, what: str, limit: int, least_bytes: int) -> int:
        cursor = self._cursor
        count = cursor.u64(f"the number of {what}")
        if count > limit:
            raise cursor.fail(f"{count} {what} are declared, at most {limit} are allowed")
        if count * least_bytes > cursor.file_size - cursor.position:
            raise cursor.fail(f"truncated: {count} {what} are declared, the file is too short for them")
        return count

    def _read_metadata(self, count: int) -> dict[str, ScalarValue | ArrayValue]:
        cursor = self._cursor
        metadata: dict[str, ScalarValue | ArrayValue] = {}
        for index in range(count):
            key = cursor.text(MAX_KEY_BYTES, f"metadata key {index}")
            if not key or not key.isprintable():
                raise cursor.fail(f"metadata key {index} is empty or unprintable")
            if key in metadata:
                raise cursor.fail(f"metadata key {key!r} occurs twice")
            metadata[key] = self._read_value(key)
        return metadata

    def _read_value(self, key: str) -> ScalarValue | ArrayValue:
        cursor = self._cursor
        value_type = cursor.u32(f"the type of {key!r}")
        if value_type == STRING:
            return cursor.text(MAX_STRING_BYTES, f"the value of {key!r}")
        if value_type == ARRAY:
            return self._read_array(key)
        if value_type not in SCALARS:
            raise cursor.fail(f"{key!r} has the unknown value type {value_type}")
        value = cursor.unpack(SCALARS[value_type], f"the value of {key!r}")
        return self._boolean(int(value), key) if value_type == BOOL else value

    def _boolean(self, value: int, key: str) -> bool:
        if value > 1:
            raise self._cursor.fail(f"{key!r} is a truth value of {value}")
        return value == 1

    def _read_array(self, key: str) -> ArrayValue:
        cursor = self._cursor
        element_type = cursor.u32(f"the element type of {key!r}")
        count = cursor.u64(f"the length of {key!r}")
        if element_type == ARRAY:
            raise cursor.fail(f"{key!r} is an array of arrays")
        if element_type == STRING:
            self._skip_string_array(key, count)
            return ArrayValue(element_type, count, ())
        if element_type not in SCALARS:
            raise cursor.fail(f"{key!r} has the unknown element type {element_type}")
        size = count * SCALARS[element_type].size
        if count > DECODED_ELEMENTS:
            cursor.skip(size, f"the array {key!r}")
            return ArrayValue(element_type, count, ())
        values = struct.unpack(
            f"<{count}{ARRAY_LETTERS[element_type]}", cursor.take(size, f"the array {key!r}")
        )
        return ArrayValue(element_type, count, values)

    def _skip_string_array(self, key: str, count: int) -> None:
        cursor = self._cursor
        if count > MAX_STRING_ELEMENTS:
            raise cursor.fail(f"{key!r} has {count} elements, at most {MAX_STRING_ELEMENTS} are allowed")
        if count * 8 > cursor.file_size - cursor.position:
            raise cursor.fail(f"truncated: {key!r} has {count} elements, the file is too short for them")
        cursor.skip_strings(count, f"the array {key!r}")

    def _alignment(self, metadata: dict[str, ScalarValue | ArrayValue]) -> int:
        alignment = metadata.get("general.alignment", 32)
        is_integer = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not is_integer or not isinstance(alignment, int):
            raise self._cursor.fail("general.alignment is not an integer")
        if not 0 < alignment < MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._cursor.fail(f"general.alignment is {alignment}, not a power of two below 2^20")
        return alignment

    def _read_tensors(self, count: int, alignment: int) -> tuple[Tensor, ...]:
        cursor = self._cursor
        names: set[str] = set()
        tensors: list[Tensor] = []
        expected_offset = 0
        for index in range(count):
            tensor = self._read_tensor(index)
            if tensor.name in names:
                raise cursor.fail(f"tensor {tensor.name!r} occurs twice")
            names.add(tensor.name)
            self._check_offset(tensor, expected_offset, alignment)
            expected_offset = _padded(tensor.offset + tensor.size_bytes, alignment)
            tensors.append(tensor)
        return tuple(tensors)

    def _read_tensor(self, index: int) -> Tensor:
        cursor = self._cursor
        name = cursor.text(MAX_TENSOR_NAME_BYTES, f"the name of tensor {index}")
        if not name or not name.isprintable():
            raise cursor.fail(f"the name of tensor {index} is empty or unprintable")
        dimension_count = cursor.u32(f"the number of dimensions of {name!r}")
        if not 1 <= dimension_count <= 4:
            raise cursor.fail(f"tensor {name!r} has {dimension_count} dimensions, 1 to 4 are allowed")
        dimensions = tuple(cursor.u64(f"a dimension of {name!r}") for _ in range(dimension_count))
        type_number = cursor.u32(f"the type of {name!r}")
        tensor_type = TENSOR_TYPES.get(type_number)
        if tensor_type is None:
            raise cursor.fail(f"tensor {name!r} has the unknown type {type_number}")
        size = self._tensor_size(name, dimensions, tensor_type)
        return Tensor(name, dimensions, tensor_type, cursor.u64(f"the offset of {name!r}"), size)

    def _tensor_size(self, name: str, dimensions: tuple[int, ...], tensor_type: TensorType) -> int:
        elements = 1
        for dimension in dimensions:
            if dimension == 0:
                raise self._cursor.fail(f"tensor {name!r} has a dimension of 0")
            elements *= dimension
        if elements > _INT64_MAX:
            raise self._cursor.fail(f"tensor {name!r} has more elements than can be counted: {dimensions}")
        if dimensions[0] % tensor_type.block_elements:
            raise self._cursor.fail(
                f"tensor {name!r} has rows of {dimensions[0]} elements, "
                f"not a multiple of the {tensor_type.block_elements} of a {tensor_type.name} block"
            )
        size = elements // tensor_type.block_elements * tensor_type.block_bytes
        if size > self._cursor.file_size:
            raise self._cursor.fail(
                f"truncated: tensor {name!r} takes {size} bytes, the whole file has {self._cursor.file_size}"
            )
        return size

    def _check_offset(self, tensor: Tensor, expected: int, alignment: int) -> None:
        if tensor.offset == expected:
            return
        if tensor.offset % alignment:
            problem = f"is not aligned to {alignment}"
        elif tensor.offset < expected:
            problem = f"overlaps the tensor before it, which ends at {expected}"
        else:
            problem = f"leaves a gap after the tensor before it, which ends at {expected}"
        raise self._cursor.fail(f"tensor {tensor.name!r} at offset {tensor.offset} {problem}")

    def _check_extent(self, tensors: tuple[Tensor, ...], data_offset: int, alignment: int) -> None:
        cursor = self._cursor
        if not tensors:
            raise cursor.fail("the file holds no tensors, so there is no model in it")
        last = tensors[-1]
        end = data_offset + last.offset + last.size_bytes
        if end > cursor.file_size:
            raise cursor.fail(
                f"truncated: tensor {last.name!r} ends at byte {end}, the file has {cursor.file_size}; "
                f"{end - cursor.file_size} bytes are missing"
            )
        if cursor.file_size > _padded(end, alignment):
            raise cursor.fail(
                f"{cursor.file_size - end} bytes follow the last tensor {last.name!r}, none may"
            )


def _padded(position: int, alignment: int) -> int:
    return (position + alignment - 1) // alignment * alignment
