"""The memory plan: formulas, what fits, and the limits of a control group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.catalog.free_memory import read_free_bytes
from appliance.catalog.gguf import GgufInfo, TensorGroup, read_gguf
from appliance.catalog.memory_plan import LoadShape, kv_cache_bytes, plan_memory, require_fit
from appliance.core.errors import NotEnoughMemoryError
from tests.gguf_files import tiny_model

CELL_BYTES = 64
PLAIN = frozenset[str]()


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    tiny = read_gguf(tiny_model().write(tmp_path_factory.mktemp("gguf") / "tiny.gguf"))
    return replace(tiny, context_length=8192)


def test_the_kv_cache_is_cells_times_heads_times_lengths(info: GgufInfo) -> None:
    # heads 2 and 1, keys and values of 8 elements, 2 bytes each
    shape = LoadShape(context_tokens=1024, sequences=2)
    assert kv_cache_bytes(info, shape) == 2048 * ((2 + 1) * (8 + 8) * 2 + CELL_BYTES)
    smaller = replace(shape, key_type="q8_0", value_type="q8_0")
    assert kv_cache_bytes(info, smaller) == 2048 * ((2 + 1) * 17 + CELL_BYTES)


def test_layers_without_keys_of_their_own_cost_nothing(info: GgufInfo) -> None:
    shape = LoadShape(context_tokens=1024)
    cells = 1024 * CELL_BYTES
    assert kv_cache_bytes(replace(info, shared_kv_layers=1), shape) == 1024 * 2 * 16 * 2 + cells
    assert kv_cache_bytes(replace(info, head_counts_kv=(0, 0)), shape) == cells
    assert kv_cache_bytes(replace(info, has_latent_attention=True), shape) == 1024 * 3 * 8 * 2 + cells


def test_weights_that_a_processor_wants_in_another_order_count_twice(info: GgufInfo) -> None:
    group = TensorGroup(
        role="feed_forward", type_name="q4_k", columns=256, rows=64, count=1, size_bytes=144 * 64
    )
    embedding = replace(group, role="token_embedding", type_name="q8_0", size_bytes=34 * 8 * 64)
    quantised = replace(info, tensor_groups=(group, embedding))
    shape = LoadShape(context_tokens=256)

    def repacked(features: set[str]) -> int:
        return plan_memory(quantised, shape, free_bytes=1, cpu_features=frozenset(features)).repacked_bytes

    assert repacked(set()) == 0
    assert repacked({"avx2"}) == 144 * 64
    assert repacked({"avx2", "amx_int8"}) == 148 * 64 + 38 * 8 * 64
    assert repacked({"asimddp"}) == 144 * 64 + 34 * 8 * 64


@settings(max_examples=60, deadline=None)
@given(room=st.integers(0, 400 << 20), sequences=st.integers(1, 8))
def test_the_largest_context_fits_and_the_next_does_not(info: GgufInfo, room: int, sequences: int) -> None:
    shape = LoadShape(context_tokens=512, sequences=sequences)
    largest = plan_memory(info, shape, free_bytes=room, cpu_features=PLAIN).largest_context_tokens
    assert largest % 256 == 0
    if largest:
        fitting = replace(shape, context_tokens=largest)
        assert plan_memory(info, fitting, free_bytes=room, cpu_features=PLAIN).fits
    if largest < info.context_length:
        beyond = replace(shape, context_tokens=largest + 256)
        assert not plan_memory(info, beyond, free_bytes=room, cpu_features=PLAIN).fits


def test_what_does_not_fit_is_refused_with_what_does(info: GgufInfo) -> None:
    shape = LoadShape(context_tokens=8192, sequences=4)
    needed = plan_memory(info, shape, free_bytes=0, cpu_features=PLAIN).total_bytes
    require_fit(plan_memory(info, shape, free_bytes=needed, cpu_features=PLAIN), "tiny")
    tight = plan_memory(info, shape, free_bytes=needed - 1, cpu_features=PLAIN)
    with pytest.raises(NotEnoughMemoryError) as caught:
        require_fit(tight, "tiny")
    assert caught.value.details["largest_context_tokens"] == 8192 - 256
    assert "at most 7936 tokens" in caught.value.hint
    nothing = plan_memory(info, shape, free_bytes=1000, cpu_features=PLAIN)
    with pytest.raises(NotEnoughMemoryError) as caught:
        require_fit(nothing, "tiny")
    assert "smaller model" in caught.value.hint


def test_layers_on_the_gpu_leave_this_memory(info: GgufInfo) -> None:
    shape = LoadShape(context_tokens=1024)
    here = plan_memory(info, shape, free_bytes=1 << 40, cpu_features=PLAIN)
    gone = plan_memory(
        info, replace(shape, gpu_layers=-1), free_bytes=1 << 40, gpu_free_bytes=1 << 40, cpu_features=PLAIN
    )
    assert (gone.weights_bytes, gone.kv_cache_bytes) == (0, 0)
    assert gone.gpu_bytes >= here.weights_bytes + here.kv_cache_bytes
    assert not replace(gone, gpu_free_bytes=0).fits


def test_the_limit_of_a_control_group_counts(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    own.write_text("0::/outer/inner\n")
    machine = read_free_bytes(root, own)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("500\n")
    assert abs(read_free_bytes(root, own) - machine) < machine // 2
    (root / "outer" / "memory.max").write_text("100000\n")
    (root / "outer" / "memory.current").write_text("60000\n")
    (root / "outer" / "memory.stat").write_text("anon 1\ninactive_file 10000\n")
    assert read_free_bytes(root, own) == 50_000
    (inner / "memory.max").write_text("700\n")
    assert read_free_bytes(root, own) == 200


def test_the_older_control_groups_count_too(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    folder = root / "memory" / "docker"
    folder.mkdir(parents=True)
    own.write_text("5:cpu:/docker\n4:memory:/docker\n")
    (folder / "memory.limit_in_bytes").write_text("9000\n")
    (folder / "memory.usage_in_bytes").write_text("4000\n")
    assert read_free_bytes(root, own) == 5000
