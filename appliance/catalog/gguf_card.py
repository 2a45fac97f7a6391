"""Makes a card for a GGUF file that has none, out of what its header says."""

from __future__ import annotations

import re
from pathlib import Path

from appliance.catalog.gguf import GgufInfo
from appliance.core.capabilities import Capability, ModelCard, WeightsFile

_RANK_POOLING = 4
_REASONING_TAGS = (("<think>", "</think>"), ("<|channel|>analysis<|message|>", "<|end|>"))


def card_of_gguf(info: GgufInfo, *, card_id: str, file: WeightsFile, description: str = "") -> ModelCard:
    """Return a card with the facts of the header; what the header does not say stays empty."""
    capabilities = _capabilities(info)
    is_embedder = "embed" in capabilities
    return ModelCard(
        id=card_id,
        family=info.architecture,
        parameters=info.parameters,
        quantisation=info.quantisation,
        context_window=info.context_length,
        licence="not stated",
        capabilities=capabilities,
        files=(file,),
        description=description or info.name,
        reasoning_tags=_reasoning_tags(info.chat_template),
        embedding_dimension=info.embedding_length if is_embedder else 0,
        max_input_tokens=info.context_length if is_embedder else 0,
    )


def weights_file_of(path: Path, *, sha256: str = "", sources: tuple[str, ...] = ()) -> WeightsFile:
    """Describe a file on disk as the file of a card."""
    return WeightsFile(
        name=safe_file_name(path.name), size_bytes=path.stat().st_size, sha256=sha256, sources=sources
    )


def safe_file_name(name: str) -> str:
    """Make the name of a file one that a card may have."""
    return re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", name).lstrip("._-")[-128:].lstrip("._-") or "weights.gguf"


def _capabilities(info: GgufInfo) -> frozenset[Capability]:
    if info.pooling_type == _RANK_POOLING:
        return frozenset({"rerank"})
    if info.pooling_type is not None:
        return frozenset({"embed"})
    # A base model has no chat template; it continues the plain text of the conversation.
    found: set[Capability] = {"chat", "json_schema", "streaming_usage"}
    if "tools" in info.chat_template:
        found.add("tools")
    if _reasoning_tags(info.chat_template):
        found.add("reasoning")
    return frozenset(found)


def _reasoning_tags(chat_template: str) -> tuple[str, str] | None:
    for opening, closing in _REASONING_TAGS:
        if opening in chat_template:
            return opening, closing
    return None
