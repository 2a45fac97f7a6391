"""Does the constraint accept the canonical tokens of a value exactly when the value is valid?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.core.errors import SchemaRejectedError
from appliance.core.requests import JsonSchemaFormat
from appliance.structured.admission import Admitted, admit
from appliance.structured.canonical import canonical_text
from appliance.structured.json_text import JsonValue
from tests.unit.structured.scripted_model import COMPILER, VOCABULARY


@dataclass(slots=True)
class Acceptance:
    """Counts over many schemas. `wrong` lists what was accepted though invalid, or rejected though valid."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, schema: JsonValue, cases: Sequence[tuple[JsonValue, bool]]) -> None:
        """Try one schema, with open objects as JSON Schema has them, on values known valid or not."""
        self.counts["schemas"] += 1
        try:
            admitted = admit(
                JsonSchemaFormat(schema_json=json.dumps(schema, ensure_ascii=False)), closes_objects=False
            )
        except SchemaRejectedError as error:
            self.counts["refused schemas"] += 1
            self.wrong.append(f"refused {name}: {error.message[:160]}")
            return
        self.counts["exact schemas"] += admitted.is_exact
        verdicts = [self._try(name, admitted, schema, value, is_valid) for value, is_valid in cases]
        self.counts["right schemas"] += all(verdicts)

    def _try(
        self, name: str, admitted: Admitted, schema: JsonValue, value: JsonValue, is_valid: bool
    ) -> bool:
        text = canonical_text(schema, value)
        is_accepted = accepts(admitted, text)
        self.counts["instances"] += 1
        if is_accepted == is_valid:
            self.counts["right"] += 1
            return True
        kind = "false accept" if is_accepted else "false reject"
        self.counts[kind] += 1
        self.wrong.append(f"{kind} {name}: {text[:120]}")
        return False


def accepts(admitted: Admitted, text: str) -> bool:
    """Whether the grammar takes every token, may stop there, and the exact check passes."""
    constraint = COMPILER.compile(admitted).start()
    tokens = VOCABULARY.tokenize(text)
    if constraint.count_allowed(tokens) < len(tokens):
        return False
    constraint.accept(tokens)
    return constraint.can_stop and not admitted.problems(text)
