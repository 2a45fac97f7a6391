"""Facts of the machine that figures depend on."""

import json
from dataclasses import replace

from benchmarks.fingerprint import take_fingerprint, unlike_facts


def test_a_fingerprint_names_processor_libraries_and_models() -> None:
    facts = json.loads(take_fingerprint({"m": "ab" * 32}).to_json())

    assert facts["models"] == {"m": "ab" * 32}
    assert facts["libraries"]["llama-cpp-python"] == "0.3.36"
    assert facts["usable_cores"] >= 1
    assert facts["memory_bytes"] > 10**8


def test_the_same_machine_a_minute_later_is_like() -> None:
    before = take_fingerprint({})
    after = replace(before, load_before=before.load_before + 5, available_memory_bytes=1)

    assert unlike_facts(before, after) == []


def test_a_spinning_limit_and_other_weights_make_figures_unlike() -> None:
    one = take_fingerprint({"m": "aa"})
    other = replace(one, openmp={"GOMP_SPINCOUNT": "7"}, models={"m": "bb"})

    assert unlike_facts(one, other) == ["openmp", "models"]
