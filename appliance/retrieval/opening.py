"""Opens the embedder or reranker that a name stands for: ONNX by fastembed, GGUF by llama.cpp."""

from __future__ import annotations

from typing import Protocol

from appliance.catalog.catalog import LocalModel
from appliance.core.capabilities import Capability
from appliance.core.errors import ModelNotFoundError
from appliance.retrieval.chunking import TokenMeter
from appliance.retrieval.embedder import EmbedderSettings, FastembedEmbedder
from appliance.retrieval.gguf_models import GgufEmbedder, GgufReranker
from appliance.retrieval.index import QueryEmbedder
from appliance.retrieval.rerank import ClosableReranker, FastembedReranker

_DOING = {"embed": "embedder", "rerank": "reranker"}


class PassageEmbedder(QueryEmbedder, TokenMeter, Protocol):
    """An embedder that documents can be cut for, and that may hold a process."""

    def close(self) -> None:
        """Release what it holds."""
        ...


def open_embedder(local: LocalModel, *, threads: int = 2) -> PassageEmbedder:
    """Load an embedder of this machine.

    Raises:
        ModelNotFoundError: the model embeds nothing, or a file of it is gone.
        ApplianceError: its files cannot be used.
    """
    check_kind(local, "embed")
    card = local.card
    if local.is_gguf:
        return GgufEmbedder.load(
            local.path,
            name=local.id,
            weights_digest=local.digest,
            max_input_tokens=card.max_input_tokens,
            text_prefix=card.passage_prefix,
            query_prefix=card.query_prefix,
            threads=threads,
        )
    return FastembedEmbedder.load(local.path, settings=EmbedderSettings.of_card(card), threads=threads)


def open_reranker(local: LocalModel, *, threads: int = 2) -> ClosableReranker:
    """Load a reranker of this machine.

    Raises:
        ModelNotFoundError: the model reranks nothing, or a file of it is gone.
        ApplianceError: its files cannot be used.
    """
    check_kind(local, "rerank")
    if local.is_gguf:
        return GgufReranker.load(
            local.path, name=local.id, max_input_tokens=local.card.max_input_tokens, threads=threads
        )
    return FastembedReranker.load(local.path)


def check_kind(local: LocalModel, kind: Capability) -> None:
    """Refuse a model of another kind before anything of it is read.

    Raises:
        ModelNotFoundError: says what it is instead.
    """
    offered = local.card.capabilities
    if kind in offered:
        return
    others = [word for other, word in _DOING.items() if other in offered]
    what = others[0] if others else "chat model"
    raise ModelNotFoundError(
        f"{local.id} is no {_DOING[kind]}; it is a {what}".replace("a embedder", "an embedder"),
        hint=f"`appliance list` shows what each model is for; one with {kind!r} can be the {_DOING[kind]}",
        model=local.id,
    )
