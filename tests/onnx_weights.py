"""Reads the weights of an ONNX file without its library: names, shapes and values of what the graph starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}


@dataclass
class OnnxGraph:
    """The values a graph starts from, by name, and its nodes as (operation, inputs, outputs)."""

    values: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    nodes: list[tuple[str, list[str], list[str]]] = field(default_factory=list)


def read_onnx(path: Path) -> OnnxGraph:
    graph = OnnxGraph()
    for number, content in _fields(path.read_bytes()):
        if number == _GRAPH:
            for part, inner in _fields(content):
                if part == _INITIALIZER:
                    name, value = _tensor(inner)
                    graph.values[name] = value
                elif part == _NODE:
                    graph.nodes.append(_node(inner))
    return graph


def _node(content: bytes) -> tuple[str, list[str], list[str]]:
    inputs: list[str] = []
    outputs: list[str] = []
    operation = ""
    for number, value in _fields(content):
        if number == 1:
            inputs.append(value.decode())
        elif number == 2:
            outputs.append(value.decode())
        elif number == 4:
            operation = value.decode()
    return operation, inputs, outputs


def _tensor(content: bytes) -> tuple[str, NDArray[np.generic]]:
    shape: list[int] = []
    name, kind, raw = "", 1, b""
    for number, value in _fields(content):
        if number == 1:
            shape.append(int.from_bytes(value, "little"))
        elif number == 2:
            kind = int.from_bytes(value, "little")
        elif number == 8:
            name = value.decode()
        elif number == 9:
            raw = value
    return name, np.frombuffer(raw, _TYPES[kind]).reshape(shape) if raw else np.zeros(0, np.float32)


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each field; a whole number comes as eight bytes, lowest first."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(content, place)
            yield number, value.to_bytes(8, "little")
            continue
        width, place = _varint(content, place) if wire == 2 else (8 if wire == 1 else 4, place)
        yield number, content[place : place + width]
        place += width


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
