"""Asks a model which words of a user are worth remembering; code keeps only what the user really said."""

from __future__ import annotations

import json
from collections.abc import Sequence

from appliance.context.budget import ContextBudget
from appliance.context.builder import ContextBuilder
from appliance.context.counting import RequestCounter
from appliance.context.parts import Passage
from appliance.core.errors import error_of
from appliance.core.requests import LOCAL_OWNER, GenerateRequest, JsonSchemaFormat, SamplingParams
from appliance.core.results import GenerateFailure
from appliance.gateway import Gateway
from appliance.memory.turns import Turn
from appliance.prompts import shipped_prompts

PROMPT_ID = "facts"
MOST_PROPOSALS = 5
_ANSWER_TOKENS = 160
_LONGEST_TURN_CHARACTERS = 4_000
_SCHEMA = {
    "type": "object",
    "properties": {
        "phrases": {
            "type": "array",
            "items": {"type": "string", "minLength": 4, "maxLength": 200},
            "maxItems": MOST_PROPOSALS,
        }
    },
    "required": ["phrases"],
    "additionalProperties": False,
}


class FactPhrases:
    """An `ExtractFacts` over one gateway and model."""

    def __init__(self, gateway: Gateway, *, model: str, owner: str = LOCAL_OWNER) -> None:
        self._gateway = gateway
        self._model = model
        self._owner = owner

    async def __call__(self, turns: Sequence[Turn]) -> list[str]:
        """Return phrases of the turns, as far as the newest of them fit the window.

        Raises:
            ApplianceError: the model failed.
        """
        said = [turn.text for turn in reversed(turns) if 0 < len(turn.text) <= _LONGEST_TURN_CHARACTERS]
        if not said:
            return []
        window = (await self._gateway.capabilities(self._model)).context_window
        budget = ContextBudget(context_window=window, reserved_tokens=min(_ANSWER_TOKENS, window // 2))
        builder = ContextBuilder(RequestCounter(self._gateway.count_tokens), budget)
        passages = [Passage(text=text, source="user") for text in said]
        built = await builder.build(self._request(budget), passages=passages, keeps_order=True)
        result = await self._gateway.generate(built.request)
        if isinstance(result, GenerateFailure):
            raise error_of(result.failure)
        phrases = result.value.get("phrases") if isinstance(result.value, dict) else None
        return [str(phrase) for phrase in phrases] if isinstance(phrases, list) else []

    def _request(self, budget: ContextBudget) -> GenerateRequest:
        prompt = shipped_prompts().get(PROMPT_ID).render()
        return prompt.request(
            self._model,
            owner=self._owner,
            sampling=SamplingParams(temperature=0.0, max_tokens=budget.reserved_tokens),
            output=JsonSchemaFormat(schema_json=json.dumps(_SCHEMA), name="phrases"),
        )
