"""The child process of an embedder or reranker in GGUF: owns the weights, embeds and scores for its parent."""

from __future__ import annotations

import math
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ApplianceError, EngineCrashedError, InvalidRequestError, ModelFileError
from appliance.engine import native
from appliance.engine.embedding import (
    HEADER,
    EmbeddingCall,
    EmbeddingModel,
    EmbeddingReply,
    received_exactly,
    send_frame,
)

_RANK_POOLING = 4
_NO_POOLING = 0
_MEAN_POOLING = 1
_TEXTS_A_PASS = 16
_NO_TOKEN = -1


class Weights:
    """Loaded weights with a context that pools one vector a sequence."""

    def __init__(self, path: Path, *, name: str, max_input_tokens: int, threads: int) -> None:
        read_gguf(path)  # refuses a damaged or hostile file before anything maps it
        native.initialise()
        self._model = native.Model(path, gpu_layers=0, on_progress=lambda _fraction: None)
        self._name = name
        trained = self._model.trained_context
        self.max_input_tokens = min(max_input_tokens, trained) if trained > 0 else max_input_tokens
        self._vocabulary = lib.llama_model_get_vocab(self._model.pointer)
        self._pointer = self._context(threads)
        self._memory = lib.llama_get_memory(self._pointer)
        self._batch = native.Batch(self.max_input_tokens)
        self.pooling = int(lib.llama_pooling_type(self._pointer))
        if self.pooling == _NO_POOLING:
            raise ModelFileError(
                f"{name} does not say how its tokens become one vector",
                hint="an embedder's GGUF states pooling_type; a chat model cannot embed",
            )
        is_ranking = self.pooling == _RANK_POOLING
        size = lib.llama_model_n_cls_out if is_ranking else lib.llama_model_n_embd_out
        self.dimension = int(size(self._model.pointer))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text with the special ones that its model wants."""
        return self._model.vocabulary.tokenize(text, add_bos=True)

    def pair(self, question: str, passage: str) -> list[int]:
        """Return the tokens of a question and a passage as a reranker was trained to read them."""
        template = lib.llama_model_chat_template(self._model.pointer, b"rerank")
        if template:
            return self._filled(template.decode("utf-8", "replace"), question, passage)
        plain = self._model.vocabulary.tokenize
        begin = [self._model.vocabulary.bos] if lib.llama_vocab_get_add_bos(self._vocabulary) else []
        separator = int(lib.llama_vocab_sep(self._vocabulary))
        end = self._model.vocabulary.eos if self._model.vocabulary.eos != _NO_TOKEN else separator
        ends = [end] if lib.llama_vocab_get_add_eos(self._vocabulary) else []
        between_two = [separator] if lib.llama_vocab_get_add_sep(self._vocabulary) else []
        return [*begin, *plain(question), *ends, *between_two, *plain(passage), *(ends or between_two)]

    def _filled(self, template: str, question: str, passage: str) -> list[int]:
        """Only the template can make control tokens; what stands in its holes is plain text."""
        before, _, rest = template.partition("{query}")
        between, _, after = rest.partition("{document}")
        parts = ((before, True), (question, False), (between, True), (passage, False), (after, True))
        return [
            token
            for text, is_template in parts
            for token in self._model.vocabulary.tokenize(text, parse_special=is_template)
        ]

    def pooled(self, inputs: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return one row for each input, in order.

        Raises:
            InvalidRequestError: one is too long; nothing is cut in silence.
        """
        for position, tokens in enumerate(inputs):
            if len(tokens) > self.max_input_tokens:
                raise InvalidRequestError(
                    f"text {position} has {len(tokens)} tokens; {self._name} takes {self.max_input_tokens}",
                    hint="split the text into chunks; it is not cut in silence",
                )
        rows = np.zeros((len(inputs), self.dimension), np.float32)
        for positions in self._passes(inputs):
            self._run(positions, inputs, rows)
        return rows

    def _passes(self, inputs: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Put short inputs together, longest first, as many as one pass holds."""
        waiting = sorted(range(len(inputs)), key=lambda position: -len(inputs[position]))
        group: list[int] = []
        used = 0
        for position in waiting:
            length = max(1, len(inputs[position]))
            if group and (used + length > self.max_input_tokens or len(group) == _TEXTS_A_PASS):
                yield group
                group, used = [], 0
            group.append(position)
            used += length
        if group:
            yield group

    def _run(
        self, positions: Sequence[int], inputs: Sequence[Sequence[int]], rows: NDArray[np.float32]
    ) -> None:
        self._batch.clear()
        if self._memory:
            lib.llama_memory_clear(self._memory, True)
        filled = [position for position in positions if inputs[position]]
        for sequence, position in enumerate(filled):
            tokens = inputs[position]
            self._batch.add_many(tokens, 0, sequence, outputs=range(len(tokens)))
        self._batch.raw.n_tokens = self._batch.count
        if filled and (status := int(lib.llama_decode(self._pointer, self._batch.raw))) != 0:
            raise EngineCrashedError(f"llama.cpp cannot embed with {self._name}: status {status}")
        for sequence, position in enumerate(filled):
            pointer = lib.llama_get_embeddings_seq(self._pointer, sequence)
            if not pointer:
                raise EngineCrashedError(f"llama.cpp gave no vector with {self._name}")
            rows[position] = np.ctypeslib.as_array(pointer, shape=(self.dimension,))

    def _context(self, threads: int) -> object:
        params = lib.llama_context_default_params()
        # A pass is one physical batch: attention that looks ahead cannot be split.
        params.n_ctx = params.n_batch = params.n_ubatch = self.max_input_tokens
        params.n_seq_max = _TEXTS_A_PASS
        params.kv_unified = True
        params.embeddings = True
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        pointer = lib.llama_init_from_model(self._model.pointer, params)
        if pointer is None:
            raise ModelFileError(f"llama.cpp cannot make a context for {self._name}")
        return pointer


def answer(weights: Weights, call: EmbeddingCall) -> tuple[EmbeddingReply, bytes]:
    """Do what the parent asks.

    Raises:
        ApplianceError: a text is too long, or the weights are of another kind.
    """
    if call.kind == "count":
        return EmbeddingReply(counts=tuple(len(weights.tokens(text)) for text in call.texts)), b""
    if (call.kind == "score") != (weights.pooling == _RANK_POOLING):
        kind = "an embedder" if call.kind == "score" else "a reranker"
        raise InvalidRequestError(f"these weights are {kind}")
    if call.kind == "embed":
        rows = _normalised(weights.pooled([weights.tokens(text) for text in call.texts]))
    else:
        pairs = [weights.pair(call.question, passage) for passage in call.texts]
        rows = _shares(weights.pooled(pairs))
    reply = EmbeddingReply(rows=rows.shape[0], columns=rows.shape[1])
    return reply, np.ascontiguousarray(rows, np.float32).tobytes()


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(rows).all():
        raise EngineCrashedError("the embedder computes no numbers: its vectors are not finite")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _shares(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """One score a row, from 0 to 1. Two columns are a softmax of yes and no; one is a logit."""
    if not np.isfinite(rows).all():
        raise EngineCrashedError("the reranker computes no numbers: its scores are not finite")
    if rows.shape[1] > 1:
        return rows[:, :1]
    shares = [[1 / (1 + math.exp(-min(max(float(row[0]), -60.0), 60.0)))] for row in rows]
    return np.array(shares, np.float32).reshape(len(rows), 1)


def main() -> None:
    """Serve the socket whose descriptor is the first argument, with the weights of the second, under their name."""
    descriptor, path, name, most_tokens, threads = sys.argv[1:]
    connection = socket.socket(fileno=int(descriptor))
    try:
        weights = Weights(Path(path), name=name, max_input_tokens=int(most_tokens), threads=int(threads))
    except ApplianceError as exc:
        failure = exc.to_failure()
        said = EmbeddingModel(
            failure_kind=failure.kind,
            message=failure.message,
            hint=failure.hint,
            is_bad_file=isinstance(exc, ModelFileError),
        )
        send_frame(connection, said.model_dump_json().encode())
        return
    said = EmbeddingModel(
        dimension=weights.dimension, max_input_tokens=weights.max_input_tokens, build=native.build_identity()
    )
    send_frame(connection, said.model_dump_json().encode())
    _serve(connection, weights)
    os._exit(0)  # skip native destructors: nothing lasts


def _serve(connection: socket.socket, weights: Weights) -> None:
    while True:
        try:
            (length,) = HEADER.unpack(received_exactly(connection, HEADER.size))
            call = EmbeddingCall.model_validate_json(received_exactly(connection, length))
        except (EOFError, OSError):
            return
        try:
            reply, numbers = answer(weights, call)
        except ApplianceError as exc:
            failure = exc.to_failure()
            reply = EmbeddingReply(failure_kind=failure.kind, message=failure.message, hint=failure.hint)
            numbers = b""
        send_frame(connection, reply.model_dump_json().encode())
        if reply.rows:
            send_frame(connection, numbers)


if __name__ == "__main__":
    main()
