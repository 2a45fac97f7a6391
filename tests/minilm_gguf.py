"""Writes the starter embedder's ONNX weights as a GGUF of the same numbers, as far as 16 bits hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.gguf_files import BOOL, F32, I32, TEXT, U32, GgufSpec, TensorSpec, array, scalar
from tests.onnx_weights import OnnxGraph, read_onnx

_F16_TENSOR = 1
_LAYER = "inner.encoder.layer."
_PARTS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_EMBEDDINGS = {
    "inner.embeddings.word_embeddings.weight": "token_embd.weight",
    "inner.embeddings.position_embeddings.weight": "position_embd.weight",
    "inner.embeddings.token_type_embeddings.weight": "token_types.weight",
    "inner.embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "inner.embeddings.LayerNorm.bias": "token_embd_norm.bias",
}


def write_minilm_gguf(folder: Path, target: Path) -> Path:
    """Convert the model of a folder with model.onnx and tokenizer.json."""
    return _written(_keys(folder), _weights(read_onnx(folder / "model.onnx")), target)


def write_reranker_gguf(folder: Path, target: Path) -> Path:
    """Put a head of made-up weights on the same model, as rerankers have one: one number for a pair of texts."""
    random = np.random.default_rng(7)
    weights = _weights(read_onnx(folder / "model.onnx")) | {
        "cls.weight": random.normal(0, 0.05, (384, 384)).astype(np.float32),
        "cls.bias": np.zeros(384, np.float32),
        "cls.output.weight": random.normal(0, 0.2, (1, 384)).astype(np.float32),
        "cls.output.bias": np.zeros(1, np.float32),
    }
    return _written(_keys(folder) | {"bert.pooling_type": scalar(U32, 4)}, weights, target)


def _written(keys: dict[str, bytes], weights: dict[str, NDArray[np.float32]], target: Path) -> Path:
    spec = GgufSpec(keys=keys)
    for name, values in sorted(weights.items()):
        is_matrix = values.ndim == 2 and name not in ("token_types.weight", "cls.output.weight")
        content = values.astype("<f2" if is_matrix else "<f4").tobytes()
        spec.tensors.append(
            TensorSpec(
                name,
                tuple(reversed(values.shape)),
                kind=_F16_TENSOR if is_matrix else 0,
                size=len(content),
                content=content,
            )
        )
    return spec.write(target)


def _weights(graph: OnnxGraph) -> dict[str, NDArray[np.float32]]:
    values = {name: np.asarray(value, np.float32) for name, value in graph.values.items()}
    for name in [name for name in values if name.endswith("_q")]:
        values[name[:-2]] = values[name] * values[f"{name[:-2]}_scale"]
    weights = {ours: values[theirs] for theirs, ours in _EMBEDDINGS.items()}
    for theirs, value in values.items():
        if theirs.startswith(_LAYER):
            weights[_layer_name(theirs)] = value
    # A matrix has no name of its own; the bias that is added to its product has.
    product_of = {outputs[0]: inputs[1] for kind, inputs, outputs in graph.nodes if kind == "MatMul"}
    for kind, inputs, _ in graph.nodes:
        bias = next((one for one in inputs if one.startswith(_LAYER) and one.endswith(".bias")), "")
        product = next((product_of[one] for one in inputs if one in product_of), "")
        if kind == "Add" and bias and product in values:
            weights[_layer_name(bias).replace(".bias", ".weight")] = values[product].T
    return weights


def _layer_name(name: str) -> str:
    number, _, rest = name.removeprefix(_LAYER).partition(".")
    part, _, kind = rest.rpartition(".")
    return f"blk.{number}.{_PARTS[part]}.{kind}"


def _keys(folder: Path) -> dict[str, bytes]:
    vocabulary = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    words = [word for word, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    return {
        "general.architecture": scalar(TEXT, "bert"),
        "general.name": scalar(TEXT, "MiniLM"),
        "general.file_type": scalar(U32, 1),
        "bert.block_count": scalar(U32, 6),
        "bert.context_length": scalar(U32, 512),
        "bert.embedding_length": scalar(U32, 384),
        "bert.feed_forward_length": scalar(U32, 1536),
        "bert.attention.head_count": scalar(U32, 12),
        "bert.attention.layer_norm_epsilon": scalar(F32, 1e-12),
        "bert.attention.causal": scalar(BOOL, 0),
        "bert.pooling_type": scalar(U32, 1),
        "tokenizer.ggml.model": scalar(TEXT, "bert"),
        "tokenizer.ggml.token_type_count": scalar(U32, 2),
        "tokenizer.ggml.tokens": array(TEXT, [_phantom(word) for word in words]),
        "tokenizer.ggml.token_type": array(I32, [3 if _is_special(word) else 1 for word in words]),
        "tokenizer.ggml.bos_token_id": scalar(U32, words.index("[CLS]")),
        "tokenizer.ggml.eos_token_id": scalar(U32, words.index("[SEP]")),
        "tokenizer.ggml.unknown_token_id": scalar(U32, words.index("[UNK]")),
        "tokenizer.ggml.seperator_token_id": scalar(U32, words.index("[SEP]")),
        "tokenizer.ggml.padding_token_id": scalar(U32, words.index("[PAD]")),
        "tokenizer.ggml.mask_token_id": scalar(U32, words.index("[MASK]")),
    }


def _is_special(word: str) -> bool:
    return word.startswith("[") and word.endswith("]") and len(word) > 2


def _phantom(word: str) -> str:
    """As llama.cpp writes pieces of words: those that begin one have a mark, those that go on have none."""
    if _is_special(word):
        return word
    return word[2:] if word.startswith("##") else f"\u2581{word}"
