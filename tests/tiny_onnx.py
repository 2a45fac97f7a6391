"""Writes an ONNX cross-encoder so small that its scores can be worked out by hand: the cosine of the mean token id."""

from __future__ import annotations

import struct
from pathlib import Path

_FLOAT, _INT64 = 1, 7


def write_tiny_reranker(target: Path) -> Path:
    """Make a model with the inputs and the output that rerankers have."""
    mean = _attribute("axes", [1]) + _attribute("keepdims", 1)
    nodes = [
        _node("Cast", ("input_ids",), "numbers", _attribute("to", _FLOAT)),
        _node("Cast", ("attention_mask",), "used", _attribute("to", _FLOAT)),
        _node("ReduceMean", ("numbers",), "mean_number", mean),
        _node("ReduceMean", ("used",), "mean_used", mean),
        _node("Div", ("mean_number", "mean_used"), "mean", b""),
        _node("Cos", ("mean",), "logits", b""),
    ]
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"tiny")
    graph += b"".join(_bytes(11, _value(name, _INT64, "length")) for name in ("input_ids", "attention_mask"))
    graph += _bytes(12, _value("logits", _FLOAT, 1))
    target.write_bytes(_number(1, 8) + _bytes(8, _bytes(1, b"") + _number(2, 13)) + _bytes(7, graph))
    return target


def _node(operation: str, inputs: tuple[str, ...], output: str, attributes: bytes) -> bytes:
    named = b"".join(_bytes(1, name.encode()) for name in inputs) + _bytes(2, output.encode())
    return named + _bytes(4, operation.encode()) + attributes


def _attribute(name: str, value: int | list[int]) -> bytes:
    content = _bytes(1, name.encode())
    if isinstance(value, int):
        return _bytes(5, content + _number(3, value) + _number(20, 2))
    return _bytes(5, content + b"".join(_number(8, one) for one in value) + _number(20, 7))


def _value(name: str, kind: int, width: int | str) -> bytes:
    size = _number(1, width) if isinstance(width, int) else _bytes(2, width.encode())
    shape = _bytes(1, _bytes(2, b"batch")) + _bytes(1, size)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return out + struct.pack("B", value)
