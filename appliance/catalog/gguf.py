"""What a GGUF file says of its model, read from a checked header as one frozen value."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.catalog.gguf_header import ArrayValue, Header, ScalarValue, Tensor, read_header
from appliance.catalog.gguf_types import FILE_TYPES, FLOAT32, INT32, INTEGER_TYPES, STRING
from appliance.core.errors import ModelFileError

TensorRole = Literal["token_embedding", "output", "attention", "feed_forward", "experts", "other"]

MAX_LAYERS = 4096
_BLOCK = re.compile(r"blk\.(\d{1,6})\.")
# Architectures whose sliding window pattern stands in llama.cpp's source, not in the file: of this many
# layers in a row the last attends to everything.
_KNOWN_WINDOW_PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """All tensors of one role, number format and shape: rows of `columns` elements each."""

    role: TensorRole
    type_name: str
    columns: int
    rows: int
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufInfo:
    """Facts of a model file. Zero, empty or `None` means the file does not say."""

    version: int
    file_size_bytes: int
    data_offset: int
    alignment: int
    name: str
    architecture: str
    quantisation: str
    parameters: int
    tensor_count: int
    tensor_groups: tuple[TensorGroup, ...]
    split_count: int
    context_length: int
    block_count: int
    embedding_length: int
    feed_forward_length: int
    head_counts: tuple[int, ...]
    head_counts_kv: tuple[int, ...]
    key_length: int
    value_length: int
    key_length_window: int
    value_length_window: int
    has_latent_attention: bool
    shared_kv_layers: int
    sliding_window: int
    is_window_layer: tuple[bool, ...]
    recurrent_state_bytes: int
    expert_count: int
    expert_used_count: int
    pooling_type: int | None
    vocabulary_size: int
    merge_count: int
    tokenizer_model: str
    bos_token_id: int | None
    eos_token_id: int | None
    chat_template: str

    @property
    def tensor_bytes(self) -> dict[TensorRole, int]:
        """Bytes of the tensors by role."""
        totals: Counter[TensorRole] = Counter()
        for group in self.tensor_groups:
            totals[group.role] += group.size_bytes
        return dict(totals)

    @property
    def is_tied(self) -> bool:
        """Say whether the output layer reuses the token embedding."""
        return not any(group.role == "output" for group in self.tensor_groups)


def read_gguf(path: Path) -> GgufInfo:
    """Read a model file's header.

    Raises:
        ModelFileError: the file is truncated, hostile, damaged or not a GGUF; says what is wrong.
    """
    header = read_header(path)
    return _InfoReader(path, header).read()


class _InfoReader:
    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._header = header
        self._metadata = header.metadata
        self._architecture = ""

    def read(self) -> GgufInfo:
        header = self._header
        self._architecture = self._architecture_name()
        self._check_tokenizer()
        block_count = self._integer("block_count")
        if block_count > MAX_LAYERS:
            raise self._fail(
                f"{self._architecture}.block_count is {block_count}, at most {MAX_LAYERS} are allowed"
            )
        split_count = self._general_integer("split.count")
        if split_count <= 1:
            self._check_blocks(block_count)
        heads = self._per_layer("attention.head_count", block_count)
        embedding_length = self._integer("embedding_length")
        usual_length = embedding_length // max(heads, default=0) if any(heads) else 0
        key_length = self._integer("attention.key_length") or usual_length
        value_length = self._integer("attention.value_length") or usual_length
        window = self._integer("attention.sliding_window")
        vocabulary_size = self._vocabulary_size()
        merges = self._array("tokenizer.ggml.merges", {STRING})
        return GgufInfo(
            version=header.version,
            file_size_bytes=header.file_size_bytes,
            data_offset=header.data_offset,
            alignment=header.alignment,
            name=self._text("general.name"),
            architecture=self._architecture,
            quantisation=self._quantisation(),
            parameters=sum(_elements(tensor) for tensor in header.tensors),
            tensor_count=len(header.tensors),
            tensor_groups=_grouped(header.tensors),
            split_count=split_count,
            context_length=self._integer("context_length"),
            block_count=block_count,
            embedding_length=embedding_length,
            feed_forward_length=max(self._per_layer("feed_forward_length", block_count), default=0),
            head_counts=heads,
            head_counts_kv=self._per_layer("attention.head_count_kv", block_count) or heads,
            key_length=key_length,
            value_length=value_length,
            key_length_window=self._integer("attention.key_length_swa") or key_length,
            value_length_window=self._integer("attention.value_length_swa") or value_length,
            has_latent_attention=self._integer("attention.key_length_mla") > 0,
            shared_kv_layers=min(self._integer("attention.shared_kv_layers"), block_count),
            sliding_window=window,
            is_window_layer=self._window_layers(block_count) if window else (),
            recurrent_state_bytes=self._recurrent_state_bytes(block_count),
            expert_count=self._integer("expert_count"),
            expert_used_count=self._integer("expert_used_count"),
            pooling_type=self._pooling_type(),
            vocabulary_size=vocabulary_size,
            merge_count=merges.count if merges else 0,
            tokenizer_model=self._text("tokenizer.ggml.model"),
            bos_token_id=self._token_id("tokenizer.ggml.bos_token_id", vocabulary_size),
            eos_token_id=self._token_id("tokenizer.ggml.eos_token_id", vocabulary_size),
            chat_template=self._text("tokenizer.chat_template"),
        )

    def _fail(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self._path}: {what}", hint="fetch or export the file again")

    def _architecture_name(self) -> str:
        architecture = self._text("general.architecture")
        if not architecture:
            raise self._fail("the key general.architecture is missing, so the file names no kind of model")
        return architecture

    def _text(self, key: str) -> str:
        value = self._metadata.get(key, "")
        if not isinstance(value, str):
            raise self._fail(f"{key} is not a text")
        return value

    def _general_integer(self, key: str) -> int:
        value = self._metadata.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._fail(f"{key} is not an integer")
        if not 0 <= value < 1 << 32:
            raise self._fail(f"{key} is {value}, which is out of range")
        return value

    def _integer(self, suffix: str) -> int:
        """Read a key of the architecture; some that are usually one number hold one for each layer."""
        key = f"{self._architecture}.{suffix}"
        value = self._metadata.get(key, 0)
        if isinstance(value, ArrayValue):
            return max(self._integers(key, value), default=0)
        return self._general_integer(key)

    def _integers(self, key: str, value: ArrayValue) -> tuple[int, ...]:
        if value.element_type not in INTEGER_TYPES or len(value.values) != value.count:
            raise self._fail(f"{key} is not a short array of integers")
        if any(not 0 <= number < 1 << 32 for number in value.values):
            raise self._fail(f"{key} holds a number out of range")
        return tuple(int(number) for number in value.values)

    def _per_layer(self, suffix: str, block_count: int) -> tuple[int, ...]:
        key = f"{self._architecture}.{suffix}"
        value = self._metadata.get(key)
        if value is None or block_count == 0:
            return ()
        if not isinstance(value, ArrayValue):
            return (self._general_integer(key),) * block_count
        numbers = self._integers(key, value)
        if len(numbers) < block_count:
            raise self._fail(f"{key} has {len(numbers)} numbers for {block_count} layers")
        return numbers[:block_count]

    def _check_blocks(self, block_count: int) -> None:
        found = {int(match[1]) for tensor in self._header.tensors if (match := _BLOCK.match(tensor.name))}
        # Layers for multi-token prediction are counted and may be left out.
        optional = self._integer("nextn_predict_layers")
        needed = set(range(max(block_count - optional, 0)))
        if not found and not self._metadata.get(f"{self._architecture}.block_count"):
            return
        if any(tensor.name.startswith(("enc.blk.", "dec.blk.")) for tensor in self._header.tensors):
            return
        if not needed <= found or max(found, default=-1) >= block_count:
            raise self._fail(
                f"{self._architecture}.block_count says {block_count} layers, "
                f"the file has tensors of {len(found)} (blk.0 to blk.{max(found, default=0)})"
            )

    def _check_tokenizer(self) -> None:
        tokens = self._array("tokenizer.ggml.tokens", {STRING})
        scores = self._array("tokenizer.ggml.scores", {FLOAT32, INT32})
        types = self._array("tokenizer.ggml.token_type", {INT32})
        self._array("tokenizer.ggml.merges", {STRING})
        self._array("tokenizer.ggml.precompiled_charsmap", {0, 1})
        for name, array in (("scores", scores), ("token_type", types)):
            if array is not None and (tokens is None or array.count < tokens.count):
                expected = 0 if tokens is None else tokens.count
                raise self._fail(f"tokenizer.ggml.{name} has {array.count} entries for {expected} tokens")

    def _array(self, key: str, element_types: set[int]) -> ArrayValue | None:
        value: ScalarValue | ArrayValue | None = self._metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, ArrayValue):
            raise self._fail(f"{key} is not an array")
        if value.element_type not in element_types:
            raise self._fail(f"{key} has elements of the wrong type {value.element_type}")
        return value

    def _vocabulary_size(self) -> int:
        tokens = self._array("tokenizer.ggml.tokens", {STRING})
        return tokens.count if tokens else self._integer("vocab_size")

    def _token_id(self, key: str, vocabulary_size: int) -> int | None:
        # llama.cpp ignores an id outside the vocabulary; so do we.
        value = self._metadata.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocabulary_size:
            return None
        return value

    def _pooling_type(self) -> int | None:
        return (
            self._integer("pooling_type") if f"{self._architecture}.pooling_type" in self._metadata else None
        )

    def _window_layers(self, block_count: int) -> tuple[bool, ...]:
        pattern = self._metadata.get(f"{self._architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, ArrayValue) and len(pattern.values) >= block_count:
            return tuple(bool(value) for value in pattern.values[:block_count])
        known = _KNOWN_WINDOW_PERIODS.get(self._architecture, 0)
        period = int(pattern) if isinstance(pattern, int) else known
        if period <= 0:
            return (True,) * block_count if self._architecture not in _KNOWN_WINDOW_PERIODS else ()
        return tuple(layer % period < period - 1 for layer in range(block_count))

    def _recurrent_state_bytes(self, block_count: int) -> int:
        """Bytes of state that recurrent layers keep for each sequence, in the 32-bit floats of llama.cpp."""
        inner = self._integer("ssm.inner_size")
        state = self._integer("ssm.state_size")
        convolution = self._integer("ssm.conv_kernel")
        if not inner or not state:
            return 0
        window = max(convolution - 1, 0) * (inner + 2 * self._integer("ssm.group_count") * state)
        layers = block_count - sum(
            1 for heads in self._per_layer("attention.head_count_kv", block_count) if heads
        )
        return 4 * max(layers, 0) * (window + state * inner)

    def _quantisation(self) -> str:
        if "general.file_type" in self._metadata:
            # 1024 marks a type that was guessed from the tensors.
            file_type = self._general_integer("general.file_type") & 1023
            if file_type in FILE_TYPES:
                return FILE_TYPES[file_type]
        sizes: Counter[str] = Counter()
        for tensor in self._header.tensors:
            sizes[tensor.type.name] += tensor.size_bytes
        return sizes.most_common(1)[0][0].upper()


def _elements(tensor: Tensor) -> int:
    product = 1
    for dimension in tensor.dimensions:
        product *= dimension
    return product


def _grouped(tensors: tuple[Tensor, ...]) -> tuple[TensorGroup, ...]:
    counts: Counter[tuple[TensorRole, str, int, int]] = Counter()
    sizes: Counter[tuple[TensorRole, str, int, int]] = Counter()
    for tensor in tensors:
        columns = tensor.dimensions[0]
        key = (_role(tensor.name), tensor.type.name, columns, _elements(tensor) // columns)
        counts[key] += 1
        sizes[key] += tensor.size_bytes
    return tuple(
        TensorGroup(
            role=role, type_name=type_name, columns=columns, rows=rows, count=count,
            size_bytes=sizes[role, type_name, columns, rows],
        )
        for (role, type_name, columns, rows), count in counts.items()
    )  # fmt: skip


def _role(name: str) -> TensorRole:
    if name == "token_embd.weight":
        return "token_embedding"
    if name == "output.weight":
        return "output"
    if not name.endswith(".weight") or "norm" in name:
        return "other"
    if "_exps" in name:
        return "experts"
    if ".attn_" in name:
        return "attention"
    return "feed_forward" if ".ffn_" in name else "other"
