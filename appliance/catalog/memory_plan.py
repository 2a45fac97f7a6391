"""Predicts the peak of resident memory a worker reaches with a model, and whether that fits.

The measure is the peak resident set of the worker process (VmHWM on Linux) after every cell of the KV
cache was filled. It counts the pages of the mapped weights file. Address space that llama.cpp reserves
and never touches is not counted: its compute buffers are reserved for the logits of a whole batch, while
the engine asks for a few rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from appliance.catalog.free_memory import read_cpu_features, read_free_bytes
from appliance.catalog.gguf import GgufInfo, TensorGroup
from appliance.catalog.store import human_bytes
from appliance.core.errors import NotEnoughMemoryError

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def cache_types(setting: Literal["f16", "q8_0", "q4_0", "reproducible"]) -> tuple[KvType, KvType]:
    """Number formats of keys and values for the setting `kv_type`."""
    return ("f16", "f32") if setting == "reproducible" else (setting, setting)


CONTEXT_STEP_TOKENS = 256
_KV_BYTES_EACH: dict[str, float] = {
    "f32": 4, "f16": 2, "bf16": 2, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}  # fmt: skip
_FLOAT_BYTES = 4
_MASK_BYTES = 2
# Position, sequence set and bookkeeping of one cell of llama_kv_cells.
_CELL_BYTES = 64
# Measured on vocabularies of 49,152 and 262,144 tokens: texts and hash tables of llama_vocab.
_TOKEN_BYTES = 150
_MERGE_BYTES = 120
# A worker that has imported its libraries and loaded no model.
_WORKER_BYTES = 60 << 20
_SAMPLER_BYTES_PER_TOKEN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """How a model is to be loaded. The KV cache holds `context_tokens` for each of `sequences`.

    `kept_sequences` are the finished ones whose prefixes stay; they share the cells and cost logits rows.
    `prefill_tokens` is the longest piece of a prompt in one forward pass. `prefix_ram_bytes` is the most that
    prefixes of other conversations take later, beside the peak that is planned: loading does not depend on it.
    """

    context_tokens: int
    sequences: int = 1
    kept_sequences: int = 16
    key_type: KvType = "f16"
    value_type: KvType = "f16"
    batch_tokens: int = 2048
    ubatch_tokens: int = 512
    prefill_tokens: int = 256
    gpu_layers: int = 0
    prefix_ram_bytes: int = 0

    @property
    def cells(self) -> int:
        """Cells of the KV cache, one token each; llama.cpp rounds up."""
        return _rounded_up(self.context_tokens * self.sequences, CONTEXT_STEP_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Predicted peak by part, in bytes of this machine's memory, and what is free.

    `gpu_bytes` is what goes to the GPU instead; `gpu_free_bytes` is what its driver says is free.
    """

    shape: LoadShape
    weights_bytes: int
    repacked_bytes: int
    kv_cache_bytes: int
    compute_bytes: int
    runtime_bytes: int
    gpu_bytes: int
    free_bytes: int
    gpu_free_bytes: int
    largest_context_tokens: int

    @property
    def total_bytes(self) -> int:
        """The predicted peak."""
        parts = (self.weights_bytes, self.repacked_bytes, self.kv_cache_bytes, self.compute_bytes)
        return sum(parts) + self.runtime_bytes

    @property
    def fits(self) -> bool:
        """Say whether it fits in what is free."""
        return self.total_bytes <= self.free_bytes and self.gpu_bytes <= self.gpu_free_bytes


def plan_memory(
    info: GgufInfo,
    shape: LoadShape,
    *,
    free_bytes: int | None = None,
    gpu_free_bytes: int = 0,
    cpu_features: frozenset[str] | None = None,
) -> MemoryPlan:
    """Predict the worker's peak, and find the largest context that fits.

    Args:
        free_bytes: memory that can be had; what the machine and its control group say by default.
        gpu_free_bytes: what the GPU's driver says is free.
        cpu_features: names as in /proc/cpuinfo; this machine's by default. llama.cpp copies some weights
            into another order for some processors.
    """
    free = read_free_bytes() if free_bytes is None else free_bytes
    features = read_cpu_features() if cpu_features is None else cpu_features
    plan = _planned(info, shape, features, free, gpu_free_bytes)
    return replace(plan, largest_context_tokens=_largest_context(info, plan, features))


def require_fit(plan: MemoryPlan, model: str) -> None:
    """Refuse a plan that does not fit.

    Raises:
        NotEnoughMemoryError: says what is needed, what is free, and the largest context that fits.
    """
    if plan.fits:
        return
    largest = plan.largest_context_tokens
    on_gpu = plan.total_bytes <= plan.free_bytes
    needed = plan.gpu_bytes if on_gpu else plan.total_bytes
    free = plan.gpu_free_bytes if on_gpu else plan.free_bytes
    hint = (
        f"ask for a context of at most {largest} tokens, fewer parallel sequences, or free some memory"
        if largest
        else "choose a smaller model or quantisation, or free some memory"
    )
    raise NotEnoughMemoryError(
        f"{model} with {plan.shape.sequences} x {plan.shape.context_tokens} tokens of context needs "
        f"{human_bytes(needed)}{' on the GPU' if on_gpu else ''}, {human_bytes(free)} are free",
        hint=hint,
        needed_bytes=needed,
        free_bytes=free,
        largest_context_tokens=largest,
    )


def kv_cache_bytes(info: GgufInfo, shape: LoadShape) -> int:
    """Return the bytes of the KV cache: cells x heads x lengths of every layer that has one.

    Layers with a sliding window keep all cells too: a prefix could not be reused otherwise.
    """
    total = 0.0
    for layer in range(info.block_count - info.shared_kv_layers):
        heads = info.head_counts_kv[layer] if layer < len(info.head_counts_kv) else 0
        is_window = layer < len(info.is_window_layer) and info.is_window_layer[layer]
        key_length = info.key_length_window if is_window else info.key_length
        value_length = info.value_length_window if is_window else info.value_length
        if info.has_latent_attention:
            value_length = 0
        total += heads * key_length * _KV_BYTES_EACH[shape.key_type]
        total += heads * value_length * _KV_BYTES_EACH[shape.value_type]
    caches = 2 if info.sliding_window else 1
    state = info.recurrent_state_bytes * (shape.sequences + shape.kept_sequences)
    return math.ceil(total * shape.cells) + caches * _CELL_BYTES * shape.cells + state


def _planned(
    info: GgufInfo, shape: LoadShape, features: frozenset[str], free: int, gpu_free: int
) -> MemoryPlan:
    share = _gpu_share(info, shape)
    kv = kv_cache_bytes(info, shape)
    compute = _compute_bytes(info, shape)
    weights = info.file_size_bytes
    return MemoryPlan(
        shape=shape,
        weights_bytes=math.ceil(weights * (1 - share)),
        repacked_bytes=math.ceil(_repacked_bytes(info, features) * (1 - share)),
        kv_cache_bytes=math.ceil(kv * (1 - share)),
        compute_bytes=compute,
        runtime_bytes=_runtime_bytes(info),
        gpu_bytes=math.ceil((weights + kv) * share) + (_reserved_compute_bytes(info, shape) if share else 0),
        free_bytes=free,
        gpu_free_bytes=gpu_free,
        largest_context_tokens=0,
    )


def _gpu_share(info: GgufInfo, shape: LoadShape) -> float:
    if shape.gpu_layers == 0:
        return 0.0
    # One more than the blocks: the output layer counts as a layer.
    layers = info.block_count + 1
    return 1.0 if shape.gpu_layers < 0 else min(shape.gpu_layers / layers, 1.0)


def _pass_tokens(shape: LoadShape) -> int:
    """Most tokens of one forward pass: a piece of a prompt beside the running decodes."""
    return min(shape.prefill_tokens + shape.sequences, shape.ubatch_tokens, shape.batch_tokens)


def _mask_bytes(info: GgufInfo, shape: LoadShape, tokens: int) -> int:
    """Return the bytes of the attention masks: 16-bit floats, one mask for each kind of layer."""
    kinds = 2 if info.sliding_window else 1
    return kinds * tokens * shape.cells * _MASK_BYTES


def _activation_floats(info: GgufInfo) -> int:
    """Return the 32-bit floats that are alive at once for each token of a forward pass."""
    heads = max(info.head_counts, default=0)
    heads_kv = max(info.head_counts_kv, default=0)
    attention = heads * (info.key_length + info.value_length) + heads_kv * (
        info.key_length + info.value_length
    )
    return 3 * max(info.feed_forward_length, attention) + 4 * info.embedding_length


def _compute_bytes(info: GgufInfo, shape: LoadShape) -> int:
    tokens = _pass_tokens(shape)
    activations = _FLOAT_BYTES * tokens * _activation_floats(info)
    rows = shape.sequences + shape.kept_sequences
    # The rows of logits lie twice: as the graph's result and in the output buffer.
    logits = _FLOAT_BYTES * info.vocabulary_size * (rows + shape.sequences)
    return activations + _mask_bytes(info, shape, tokens) + logits


def _reserved_compute_bytes(info: GgufInfo, shape: LoadShape) -> int:
    tokens = shape.ubatch_tokens
    activations = _FLOAT_BYTES * tokens * _activation_floats(info)
    return activations + _mask_bytes(info, shape, tokens) + _FLOAT_BYTES * tokens * info.vocabulary_size


def _runtime_bytes(info: GgufInfo) -> int:
    vocabulary = info.vocabulary_size * (_TOKEN_BYTES + _SAMPLER_BYTES_PER_TOKEN)
    return _WORKER_BYTES + vocabulary + info.merge_count * _MERGE_BYTES


def _repacked_bytes(info: GgufInfo, features: frozenset[str]) -> int:
    """Return the bytes of weights that are kept a second time, in the order the processor's kernels want."""
    return sum(
        math.ceil(group.size_bytes * _repacked_part(info, group, features)) for group in info.tensor_groups
    )


def _repacked_part(info: GgufInfo, group: TensorGroup, features: frozenset[str]) -> float:
    is_product = group.role in {"attention", "feed_forward", "output"} and group.rows > 1
    if group.role == "token_embedding" and info.is_tied:
        # The output layer is then a copy of the embedding.
        is_product = True
    if not is_product:
        return 0.0
    if "amx_int8" in features and group.rows % 32 == 0 and group.type_name in _AMX_GROWTH:
        return _AMX_GROWTH[group.type_name]
    multiple = 8 if "avx2" in features else 4
    return float(group.type_name in _repacked_types(features) and group.rows % multiple == 0)


# Bytes of a block in the order of the AMX kernels, over its bytes in the file (amx/mmq.cpp, get_row_size).
_AMX_GROWTH = {
    "q4_0": 22 / 18, "q4_1": 1.0, "q8_0": 38 / 34, "q4_k": 148 / 144, "q5_k": 180 / 176, "q6_k": 1.0,
    "iq4_xs": 138 / 136, "f16": 1.0,
}  # fmt: skip


def _repacked_types(features: frozenset[str]) -> frozenset[str]:
    """Return the formats that llama.cpp's repack.cpp has an order for on this processor."""
    if "avx2" in features:
        x86 = {"q4_0", "q4_k", "iq4_nl", "mxfp4"}
        return frozenset(x86 | {"q2_k"} if "avx512f" in features else x86)
    if "asimddp" in features:
        return frozenset({"q4_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "mxfp4", "q8_0"})
    return frozenset()


def _largest_context(info: GgufInfo, plan: MemoryPlan, features: frozenset[str]) -> int:
    """Find the largest multiple of 256 tokens that fits, up to what the model was trained for."""
    most = (info.context_length or plan.shape.context_tokens) // CONTEXT_STEP_TOKENS
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        shape = replace(plan.shape, context_tokens=middle * CONTEXT_STEP_TOKENS)
        if _planned(info, shape, features, plan.free_bytes, plan.gpu_free_bytes).fits:
            low = middle
        else:
            high = middle - 1
    return low * CONTEXT_STEP_TOKENS


def _rounded_up(number: int, step: int) -> int:
    return math.ceil(number / step) * step
