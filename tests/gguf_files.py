"""Writes small GGUF files, good and bad, for tests of everything that reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "B",
    U64: "Q",
    11: "q",
    12: "d",
}
_F32_TENSOR = 0


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: int, value: float | str) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", kind) + text(value)
    return struct.pack("<I", kind) + struct.pack(f"<{_SCALARS[kind]}", value)


def array(kind: int, values: Sequence[float | str]) -> bytes:
    head = struct.pack("<IIQ", ARRAY, kind, len(values))
    if kind == TEXT:
        return head + b"".join(text(str(value)) for value in values)
    return head + struct.pack(f"<{len(values)}{_SCALARS[kind]}", *values)


@dataclass
class TensorSpec:
    name: str
    dimensions: tuple[int, ...] = (32, 2)
    kind: int = _F32_TENSOR
    offset: int | None = None
    size: int | None = None
    content: bytes = b""


@dataclass
class GgufSpec:
    """A file to be; change a field to break it."""

    magic: bytes = b"GGUF"
    version: int = 3
    keys: dict[str, bytes] = field(default_factory=dict)
    tensors: list[TensorSpec] = field(default_factory=list)
    alignment: int = 32
    tensor_count: int | None = None
    key_count: int | None = None
    tail: bytes = b""

    def to_bytes(self) -> bytes:
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        key_count = len(self.keys) if self.key_count is None else self.key_count
        out = self.magic + struct.pack("<IQQ", self.version, tensor_count, key_count)
        for key, value in self.keys.items():
            out += text(key) + value
        offset = 0
        for tensor in self.tensors:
            size = 4
            for dimension in tensor.dimensions:
                size *= dimension
            size = size if tensor.size is None else tensor.size
            out += text(tensor.name) + struct.pack("<I", len(tensor.dimensions))
            out += struct.pack(f"<{len(tensor.dimensions)}Q", *tensor.dimensions)
            out += struct.pack("<IQ", tensor.kind, offset if tensor.offset is None else tensor.offset)
            offset += self._padded(size)
        out += bytes(self._padded(len(out)) - len(out))
        if not any(tensor.content for tensor in self.tensors):
            return out + bytes(offset) + self.tail
        data = (
            one.content + bytes(self._padded(len(one.content)) - len(one.content)) for one in self.tensors
        )
        return out + b"".join(data) + self.tail

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path

    def _padded(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment


def tiny_model(tokens: int = 300) -> GgufSpec:
    """A valid two-layer model of a few kilobytes."""
    words = [f"word{number}" if number % 7 else "x" * (number % 90) for number in range(tokens)]
    return GgufSpec(
        keys={
            "general.architecture": scalar(TEXT, "llama"),
            "general.name": scalar(TEXT, "Tiny"),
            "general.file_type": scalar(U32, 0),
            "llama.block_count": scalar(U32, 2),
            "llama.context_length": scalar(U32, 1024),
            "llama.embedding_length": scalar(U32, 32),
            "llama.feed_forward_length": scalar(U32, 64),
            "llama.attention.head_count": scalar(U32, 4),
            "llama.attention.head_count_kv": array(I32, [2, 1]),
            "tokenizer.ggml.model": scalar(TEXT, "gpt2"),
            "tokenizer.ggml.tokens": array(TEXT, words),
            "tokenizer.ggml.scores": array(F32, [0.0] * tokens),
            "tokenizer.ggml.token_type": array(I32, [1] * tokens),
            "tokenizer.ggml.merges": array(TEXT, ["a b", "c d"]),
            "tokenizer.ggml.bos_token_id": scalar(U32, 1),
            "tokenizer.ggml.eos_token_id": scalar(U32, tokens + 5),
            "tokenizer.chat_template": scalar(TEXT, "{{ messages }}<think>"),
        },
        tensors=[
            TensorSpec("token_embd.weight", (32, tokens)),
            TensorSpec("blk.0.attn_q.weight", (32, 32)),
            TensorSpec("blk.0.ffn_up.weight", (32, 64)),
            TensorSpec("blk.1.attn_q.weight", (32, 32)),
            TensorSpec("output_norm.weight", (32,)),
        ],
    )
