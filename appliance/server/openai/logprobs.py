"""Log-probabilities as OpenAI writes them: those of chat completions and responses, and the older form."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from appliance.core.logprobs import Alternative, TokenLogprob
from appliance.core.requests import SamplingParams
from appliance.server.wire import JsonObject


def chat_logprobs(sampling: SamplingParams, logprobs: Sequence[TokenLogprob]) -> JsonObject | None:
    """Return those of one choice; nothing where they were not asked for."""
    if sampling.top_logprobs is None:
        return None
    return {"content": token_logprobs(logprobs), "refusal": None}


def token_logprobs(logprobs: Sequence[TokenLogprob]) -> list[JsonObject]:
    """Return tokens with their alternatives."""
    return [
        {**_token_json(each), "top_logprobs": [_token_json(other) for other in each.top]} for each in logprobs
    ]


def _token_json(token: TokenLogprob | Alternative) -> JsonObject:
    return {"token": token.token, "bytes": list(token.token_bytes), "logprob": token.logprob}


class OlderLogprobs:
    """Writes those of one choice of a completion, piece by piece; offsets count characters of its whole text."""

    def __init__(self, sampling: SamplingParams) -> None:
        self._is_asked = sampling.top_logprobs is not None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0

    def json(self, logprobs: Sequence[TokenLogprob]) -> JsonObject | None:
        """Return those of the next piece; nothing where they were not asked for."""
        if not self._is_asked:
            return None
        return {
            "tokens": [each.token for each in logprobs],
            "token_logprobs": [each.logprob for each in logprobs],
            "top_logprobs": [_by_text(each) for each in logprobs],
            "text_offset": [self._offset_before(each) for each in logprobs],
        }

    def _offset_before(self, logprob: TokenLogprob) -> int:
        before = self._characters
        self._characters += len(self._decoder.decode(bytes(logprob.token_bytes)))
        return before


def _by_text(logprob: TokenLogprob) -> dict[str, float]:
    """Return the alternatives and what was written by their texts; of two with one text the likelier stands."""
    told = {logprob.token: logprob.logprob}
    for each in logprob.top:
        told[each.token] = max(each.logprob, told.get(each.token, each.logprob))
    return told
