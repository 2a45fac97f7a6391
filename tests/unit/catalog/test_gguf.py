"""The header reader: what it understands, and what it refuses."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.catalog.gguf import read_gguf
from appliance.core.errors import ModelFileError
from tests.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    I32,
    TEXT,
    U32,
    GgufSpec,
    TensorSpec,
    array,
    scalar,
    text,
    tiny_model,
)

BREAKS: list[tuple[str, Callable[[GgufSpec], None], str]] = [
    ("magic", lambda spec: setattr(spec, "magic", b"GGML"), "not a GGUF file"),
    ("version 1", lambda spec: setattr(spec, "version", 1), "version 1"),
    ("version 4", lambda spec: setattr(spec, "version", 4), "version 4"),
    ("big-endian", lambda spec: setattr(spec, "version", 3 << 24), "big-endian"),
    ("huge tensor count", lambda spec: setattr(spec, "tensor_count", 1 << 63), "tensors are declared"),
    ("huge key count", lambda spec: setattr(spec, "key_count", 1 << 63), "keys are declared"),
    ("too many keys for the file", lambda spec: setattr(spec, "key_count", 4000), "metadata key"),
    ("no tensors", lambda spec: spec.tensors.clear(), "no tensors"),
    ("trailing bytes", lambda spec: setattr(spec, "tail", b"x" * 64), "follow the last tensor"),
    ("empty key", lambda spec: spec.keys.update({"": scalar(U32, 1)}), "empty"),
    ("long key", lambda spec: spec.keys.update({"k" * 300: scalar(U32, 1)}), "300 bytes long"),
    ("value type", lambda spec: spec.keys.update({"k": struct.pack("<II", 13, 0)}), "unknown value type 13"),
    ("truth value", lambda spec: spec.keys.update({"k": struct.pack("<IB", BOOL, 7)}), "truth value of 7"),
    (
        "nested array",
        lambda spec: spec.keys.update({"k": struct.pack("<IIQ", ARRAY, ARRAY, 1)}),
        "array of arrays",
    ),
    (
        "element type",
        lambda spec: spec.keys.update({"k": struct.pack("<IIQ", ARRAY, 99, 1)}),
        "unknown element type 99",
    ),
    (
        "array length",
        lambda spec: spec.keys.update({"k": struct.pack("<IIQ", ARRAY, F32, 1 << 62)}),
        "truncated",
    ),
    (
        "string array length",
        lambda spec: spec.keys.update({"k": struct.pack("<IIQ", ARRAY, TEXT, 1 << 40)}),
        "elements",
    ),
    (
        "string length",
        lambda spec: spec.keys.update({"k": struct.pack("<IQ", TEXT, 1 << 63)}),
        "bytes long",
    ),
    ("bad text", lambda spec: spec.keys.update({"k": struct.pack("<I", TEXT) + text(b"\xff")}), "UTF-8"),
    ("alignment 0", lambda spec: spec.keys.update({"general.alignment": scalar(U32, 0)}), "power of two"),
    ("alignment 33", lambda spec: spec.keys.update({"general.alignment": scalar(U32, 33)}), "power of two"),
    ("alignment text", lambda spec: spec.keys.update({"general.alignment": scalar(TEXT, "8")}), "integer"),
    ("no architecture", lambda spec: spec.keys.pop("general.architecture"), "general.architecture"),
    (
        "architecture type",
        lambda spec: spec.keys.update({"general.architecture": scalar(U32, 1)}),
        "not a text",
    ),
    ("too many blocks", lambda spec: spec.keys.update({"llama.block_count": scalar(U32, 3)}), "3 layers"),
    ("too few blocks", lambda spec: spec.keys.update({"llama.block_count": scalar(U32, 1)}), "1 layers"),
    (
        "a billion blocks",
        lambda spec: spec.keys.update(
            {"llama.block_count": scalar(U32, 10**9), "split.count": scalar(U32, 2)}
        ),
        "at most 4096",
    ),
    (
        "heads of one layer only",
        lambda spec: spec.keys.update({"llama.attention.head_count_kv": array(I32, [2])}),
        "1 numbers for 2 layers",
    ),
    (
        "negative heads",
        lambda spec: spec.keys.update({"llama.attention.head_count_kv": array(I32, [2, -1])}),
        "out of range",
    ),
    (
        "tokens of numbers",
        lambda spec: spec.keys.update({"tokenizer.ggml.tokens": array(F32, [0.0])}),
        "wrong type",
    ),
    (
        "scores of texts",
        lambda spec: spec.keys.update({"tokenizer.ggml.scores": array(TEXT, ["a"])}),
        "wrong type",
    ),
    (
        "too few token types",
        lambda spec: spec.keys.update({"tokenizer.ggml.token_type": array(I32, [1])}),
        "1 entries for 300 tokens",
    ),
    (
        "merges are no array",
        lambda spec: spec.keys.update({"tokenizer.ggml.merges": scalar(TEXT, "a b")}),
        "not an array",
    ),
    ("five dimensions", lambda spec: spec.tensors.append(TensorSpec("t", (1,) * 5, size=4)), "5 dimensions"),
    ("no dimensions", lambda spec: spec.tensors.append(TensorSpec("t", (), size=4)), "0 dimensions"),
    ("dimension 0", lambda spec: spec.tensors.append(TensorSpec("t", (32, 0))), "dimension of 0"),
    (
        "dimensions overflow",
        lambda spec: spec.tensors.append(TensorSpec("t", (1 << 32, 1 << 32), size=0)),
        "more elements than can be counted",
    ),
    ("huge tensor", lambda spec: spec.tensors.append(TensorSpec("t", (1 << 40,), size=0)), "truncated"),
    ("tensor type", lambda spec: spec.tensors.append(TensorSpec("t", kind=4)), "unknown type 4"),
    ("partial block", lambda spec: spec.tensors.append(TensorSpec("t", (33,), kind=2, size=32)), "block"),
    ("tensor name", lambda spec: spec.tensors.append(TensorSpec("t" * 64)), "64 bytes long"),
    ("tensor twice", lambda spec: spec.tensors.append(TensorSpec("output_norm.weight")), "twice"),
    ("overlap", lambda spec: setattr(spec.tensors[1], "offset", 0), "overlaps"),
    ("gap", lambda spec: setattr(spec.tensors[1], "offset", 1 << 20), "gap"),
    ("unaligned", lambda spec: setattr(spec.tensors[1], "offset", 7), "not aligned"),
]


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case[0])
def test_a_broken_header_is_refused_with_what_is_wrong(
    case: tuple[str, Callable[[GgufSpec], None], str], tmp_path: Path
) -> None:
    _, break_it, expected = case
    spec = tiny_model()
    break_it(spec)
    path = spec.write(tmp_path / "bad.gguf")
    with pytest.raises(ModelFileError) as caught:
        read_gguf(path)
    assert expected in caught.value.message
    assert str(path) in caught.value.message


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    spec = tiny_model()
    raw = spec.to_bytes()
    doubled = text("general.name") + scalar(TEXT, "Tiny")
    at = raw.index(doubled)
    raw = raw[:16] + struct.pack("<Q", len(spec.keys) + 1) + raw[24:at] + doubled + raw[at:]
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=r"'general\.name' occurs twice"):
        read_gguf(path)


def test_the_facts_of_a_model_are_read(tmp_path: Path) -> None:
    info = read_gguf(tiny_model().write(tmp_path / "tiny.gguf"))
    assert (info.architecture, info.name, info.quantisation) == ("llama", "Tiny", "F32")
    assert (info.block_count, info.context_length, info.embedding_length) == (2, 1024, 32)
    assert info.head_counts == (4, 4)
    assert info.head_counts_kv == (2, 1)
    assert (info.key_length, info.value_length) == (8, 8)
    assert (info.vocabulary_size, info.merge_count) == (300, 2)
    assert (info.bos_token_id, info.eos_token_id) == (1, None)
    assert info.chat_template == "{{ messages }}<think>"
    assert info.parameters == 32 * 300 + 32 * 32 + 32 * 64 + 32 * 32 + 32
    assert info.tensor_bytes == {
        "token_embedding": 32 * 300 * 4,
        "attention": 2 * 32 * 32 * 4,
        "feed_forward": 32 * 64 * 4,
        "other": 32 * 4,
    }
    assert info.is_tied


@pytest.mark.parametrize("tokens", [0, 1, 255, 256, 257, 3000])
def test_vocabularies_of_any_length_are_walked(tokens: int, tmp_path: Path) -> None:
    spec = tiny_model(max(tokens, 1))
    spec.keys["tokenizer.ggml.tokens"] = array(TEXT, [f"{'y' * (number % 200)}" for number in range(tokens)])
    spec.keys["tokenizer.ggml.scores"] = array(F32, [0.0] * tokens)
    spec.keys["tokenizer.ggml.token_type"] = array(I32, [1] * tokens)
    assert read_gguf(spec.write(tmp_path / "tiny.gguf")).vocabulary_size == tokens


def test_version_2_and_another_alignment_are_understood(tmp_path: Path) -> None:
    spec = tiny_model()
    spec.version = 2
    spec.alignment = 64
    spec.keys["general.alignment"] = scalar(U32, 64)
    info = read_gguf(spec.write(tmp_path / "tiny.gguf"))
    assert (info.version, info.alignment, info.data_offset % 64) == (2, 64, 0)


def test_the_last_tensor_may_end_without_padding(tmp_path: Path) -> None:
    spec = tiny_model()
    spec.tensors.append(TensorSpec("last.weight", (1,)))
    raw = spec.to_bytes()
    path = tmp_path / "tiny.gguf"
    path.write_bytes(raw[:-28])
    assert read_gguf(path).tensor_count == 6


@pytest.mark.parametrize("content", [b"", b"G", b"GGUF", b"not a model at all", b"\0" * 4096])
def test_what_is_not_a_model_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        read_gguf(path)


def test_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    import os

    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, tmp_path / "missing.gguf"):
        with pytest.raises(ModelFileError):
            read_gguf(path)


def test_every_cut_of_a_small_file_is_refused(tmp_path: Path) -> None:
    raw = tiny_model(20).to_bytes()
    path = tmp_path / "cut.gguf"
    accepted: list[int] = []
    for length in range(0, len(raw), 3):
        path.write_bytes(raw[:length])
        try:
            read_gguf(path)
        except ModelFileError:
            continue
        accepted.append(length)
    assert accepted == []


_SAMPLE = tiny_model(40).to_bytes()


def _read_mutant(edits: list[tuple[int, int]], big: tuple[int, int] | None, path: Path) -> None:
    raw = bytearray(_SAMPLE)
    for position, value in edits:
        raw[position] = value
    if big is not None:
        raw[big[0] : big[0] + 8] = struct.pack("<Q", big[1])
    path.write_bytes(raw)
    started_s = process_time()
    try:
        info = read_gguf(path)
    except ModelFileError:
        pass
    else:
        assert info.block_count in {0, 2}
    assert process_time() - started_s < 0.25


_EDITS = st.lists(st.tuples(st.integers(0, len(_SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=6)
_BIG = st.one_of(st.none(), st.tuples(st.integers(0, len(_SAMPLE) - 9), st.integers(0, (1 << 64) - 1)))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=_EDITS, big=_BIG)
def test_a_mutant_is_read_or_refused_quickly(
    edits: list[tuple[int, int]], big: tuple[int, int] | None, tmp_path: Path
) -> None:
    _read_mutant(edits, big, tmp_path / "mutant.gguf")


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=_EDITS, big=_BIG)
def test_thousands_of_mutants_are_read_or_refused_quickly(
    edits: list[tuple[int, int]], big: tuple[int, int] | None, tmp_path: Path
) -> None:
    _read_mutant(edits, big, tmp_path / "mutant.gguf")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=400))
def test_junk_after_the_magic_never_crashes(junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "junk.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + junk)
    with pytest.raises(ModelFileError):
        read_gguf(path)
