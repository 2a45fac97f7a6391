"""Measure real generations: `python -m tests.evaluation.structured.measure_generation WEIGHTS FOLDER`.

FOLDER is `maskbench/data` of https://github.com/guidance-ai/jsonschemabench. Each schema is decoded
greedily; `--style` says from what: `call` asks for a function call, `record` gives a record to extract.
`--plain` leaves out forced tokens and drafts; `--compare` decodes each schema both ways and counts how often
the text is the same.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import JsonSchemaFormat
from appliance.structured.admission import admit
from appliance.structured.compiler import CompiledFormat, GrammarCompiler
from appliance.structured.decoder import ConstrainedDecoder, DecodeOptions
from appliance.structured.vocabulary import TokenVocabulary

CONTEXT = 4096
BATCH = 512


class Model:
    """The least that evaluates tokens of one sequence with llama.cpp and hands over logits."""

    def __init__(self, weights: Path, threads: int) -> None:
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, None)
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.use_extra_bufts = False
        self._model = llama_cpp.llama_model_load_from_file(str(weights).encode(), model_params)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_threads, params.n_threads_batch = (
            CONTEXT,
            BATCH,
            threads,
            threads,
        )
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self.vocabulary = self._build_vocabulary()
        self.compiler = GrammarCompiler(self.vocabulary)

    def tokenize(self, text: str, *, parses_special: bool = False) -> list[int]:
        data = text.encode()
        tokens = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self._vocab, data, len(data), tokens, len(tokens), False, parses_special
        )
        return list(tokens[:count])

    def cut(self, length: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1)

    def evaluate(
        self, tokens: Sequence[int], position: int, logits_at: Sequence[int]
    ) -> list[NDArray[np.float32]]:
        found: list[NDArray[np.float32]] = []
        for start in range(0, len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            wanted = [len(tokens) - 1 - start - index in logits_at for index in range(len(part))]
            for index, token in enumerate(part):
                self._batch.token[index], self._batch.pos[index] = token, position + start + index
                self._batch.n_seq_id[index], self._batch.seq_id[index][0] = 1, 0
                self._batch.logits[index] = wanted[index]
            self._batch.n_tokens = len(part)
            if llama_cpp.llama_decode(self._context, self._batch) != 0:
                raise RuntimeError("llama_decode failed")
            found += [self._row(index) for index, is_wanted in enumerate(wanted) if is_wanted]
        return found

    def _row(self, index: int) -> NDArray[np.float32]:
        return np.ctypeslib.as_array(
            llama_cpp.llama_get_logits_ith(self._context, index), (len(self.vocabulary),)
        ).copy()

    def _build_vocabulary(self) -> TokenVocabulary:
        special, ends, texts = [], [], []
        buffer = ctypes.create_string_buffer(1024)
        control = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
        for token in range(llama_cpp.llama_vocab_n_tokens(self._vocab)):
            if llama_cpp.llama_vocab_is_eog(self._vocab, token):
                ends.append(token)
            is_special = llama_cpp.llama_vocab_get_attr(self._vocab, token) & control
            if is_special:
                special.append(token)
            count = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, 1024, 0, False)
            texts.append(b"" if is_special else buffer.raw[: max(0, count)])
        return TokenVocabulary(
            token_bytes=texts, end_token_ids=ends, special_token_ids=special, tokenize=self.tokenize
        )


def generate(
    model: Model, compiled: CompiledFormat, prompt: list[int], options: DecodeOptions
) -> ConstrainedDecoder:
    """Decode one answer as an engine would."""
    decoder = ConstrainedDecoder(
        compiled, prompt_tokens=prompt, options=options, choose=lambda row, _output: int(row.argmax())
    )
    model.cut(0)
    rows = model.evaluate(prompt, 0, (0,))
    while decoder.state == "running":
        step = decoder.next_step()
        if decoder.state != "running":
            break
        if step.tokens:
            model.cut(len(prompt) + step.keep)
            rows = model.evaluate(step.tokens, len(prompt) + step.keep, step.logits_at)
        elif step.keep < len(decoder.output_tokens):
            raise RuntimeError("a step without tokens comes first only")
        decoder.on_logits(rows)
    return decoder


def prompt_of(style: str, benchmark: dict[str, list[dict[str, object]]], shape: str) -> str:
    """Write the request: with a record of the first valid instance, or without."""
    valid = [case["data"] for case in benchmark["tests"] if case["valid"]]
    if style == "record" and valid and isinstance(valid[0], dict):
        lines = (
            f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
            for key, value in valid[0].items()
        )
        return "Record:\n" + "\n".join(lines) + f"\n\nExtract the record. {shape}"
    return f"Call the function with suitable arguments. {shape}"


def main() -> None:
    """Decode the schemas and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="*", help="which files of the folder")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--style", choices=("call", "record"), default="call")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    model = Model(arguments.weights, arguments.threads)
    paths = sorted(arguments.folder.glob(f"{arguments.match}.json"))
    random.Random(7).shuffle(paths)
    options = DecodeOptions(
        max_tokens=arguments.max_tokens,
        is_greedy=True,
        max_draft_tokens=0 if arguments.plain else 12,
        uses_forced_tokens=not arguments.plain,
    )
    counts: Counter[str] = Counter()
    began = perf_counter()
    for path in paths[: arguments.count]:
        measure(model, path, arguments.style, options, counts, compares=arguments.compare)
    tokens = max(1, counts["tokens"])
    print(dict(counts), f"passes a token {counts['passes'] / tokens:.3f}")
    print(f"{perf_counter() - began:.0f} s with prompts")


def measure(
    model: Model, path: Path, style: str, options: DecodeOptions, counts: Counter[str], *, compares: bool
) -> None:
    """Decode one schema and count what came of it."""
    benchmark = json.loads(path.read_text(encoding="utf-8"))
    try:
        admitted = admit(JsonSchemaFormat(schema_json=json.dumps(benchmark["schema"])))
    except SchemaRejectedError as error:
        counts["refused"] += 1
        print("refused", path.name, error.message[:120])
        return
    text = prompt_of(style, benchmark, admitted.prompt_text()[:4000])
    chat = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    prompt = model.tokenize(chat, parses_special=True)[: CONTEXT - options.max_tokens - 16]
    decoder = generate(model, model.compiler.compile(admitted), prompt, options)
    outcome = decoder.outcome()
    counts[decoder.state] += 1
    counts["length"] += decoder.state == "finished" and outcome.finish_reason == "length"
    counts["invalid"] += decoder.state == "finished" and bool(admitted.problems(decoder.raw_text))
    counts["tokens"] += len(decoder.output_tokens)
    counts["passes"] += decoder.counts.forward_passes
    counts["drafted"] += decoder.counts.drafted_tokens
    counts["accepted"] += decoder.counts.accepted_drafts
    counts["repairs"] += decoder.counts.repairs
    if compares:
        undrafted = replace(options, max_draft_tokens=0)
        one_by_one = generate(model, model.compiler.compile(admitted), prompt, undrafted)
        is_same = one_by_one.raw_text == decoder.raw_text
        counts["same as undrafted"] += is_same
        if not is_same:
            print("differs", path.name, *_first_difference(decoder.raw_text, one_by_one.raw_text), flush=True)
    if decoder.state == "failed":
        print("failed", path.name, outcome.problems[:1], decoder.raw_text[-100:], flush=True)


def _first_difference(one: str, other: str) -> tuple[str, str]:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return repr(one[max(0, at - 20) : at + 20]), repr(other[max(0, at - 20) : at + 20])


if __name__ == "__main__":
    main()
