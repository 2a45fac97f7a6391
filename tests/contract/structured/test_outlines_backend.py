"""Outlines' own llguidance processor as a second path: the same grammar, the same tokens allowed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from appliance.core.requests import JsonSchemaFormat
from appliance.structured.admission import admit
from tests.unit.structured.scripted_model import COMPILER, VOCABULARY

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["日本", "red"]}, "age": {"type": "integer"}},
    "required": ["name", "kind"],
}


@pytest.mark.parametrize(
    "text", ['{"name": "abc", "kind": "日本", "age": 12}', '{"name": "", "kind": "red"}']
)
def test_the_processor_of_outlines_allows_what_the_constraint_allows(text: str) -> None:
    from outlines.backends.llguidance import LLGuidanceLogitsProcessor

    admitted = admit(JsonSchemaFormat(schema_json=json.dumps(SCHEMA)))
    processor = LLGuidanceLogitsProcessor(admitted.grammar, VOCABULARY.native, "numpy")
    constraint = COMPILER.compile(admitted).start()
    tokens = VOCABULARY.tokenize(text)
    for count in range(len(tokens)):
        # The processor learns of a token when it is the last of the sequence it is handed.
        seen = np.array([tokens[:count] or [0]])
        allowed = np.isfinite(processor(seen, np.zeros((1, len(VOCABULARY)), dtype=np.float32))[0])
        assert np.array_equal(allowed, constraint.mask())
        assert allowed[tokens[count]]
        constraint.accept([tokens[count]])
    assert constraint.is_complete
