"""A request whose values cannot be served cannot be constructed."""

from math import nan

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import (
    Deadline,
    GenerateRequest,
    NamedTool,
    RegexFormat,
    SamplingParams,
    ToolSpec,
)

ASKED = Conversation.of(UserMessage(text="hello"))
TOOL = ToolSpec(name="clock", description="tells the time", parameters_json="{}")


@pytest.mark.parametrize(
    "name, value",
    [
        ("temperature", -0.1), ("temperature", nan), ("top_p", 1.1), ("min_p", -1.0), ("top_k", -1),
        ("repeat_penalty", 0.0), ("seed", -1), ("seed", 2**32), ("max_tokens", 0), ("stop", ("",)),
        ("stop", ("x" * 257,)), ("stop", ("x",) * 17), ("logit_bias", {1: nan}), ("top_logprobs", 21), ("top_logprobs", -1),
    ],
)  # fmt: skip
def test_sampling_outside_its_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


def test_a_deadline_must_be_above_zero() -> None:
    with pytest.raises(InvalidRequestError, match="first_token_s"):
        Deadline(first_token_s=0.0)


def test_a_request_needs_an_owner_and_a_model() -> None:
    with pytest.raises(InvalidRequestError, match="owner"):
        GenerateRequest(conversation=ASKED, model="m", owner="")
    with pytest.raises(InvalidRequestError, match="model"):
        GenerateRequest(conversation=ASKED, model="")


def test_tools_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="share a name"):
        GenerateRequest(conversation=ASKED, model="m", tools=(TOOL, TOOL))
    with pytest.raises(InvalidRequestError, match="'calendar'"):
        GenerateRequest(conversation=ASKED, model="m", tools=(TOOL,), tool_choice=NamedTool(name="calendar"))
    with pytest.raises(InvalidRequestError, match="no tools"):
        GenerateRequest(conversation=ASKED, model="m", tool_choice="required")


def test_a_raw_prompt_is_one_text_and_nothing_else() -> None:
    instructed = Conversation.of(SystemMessage(text="be brief"), UserMessage(text="hello"))

    with pytest.raises(InvalidRequestError, match="raw"):
        GenerateRequest(conversation=instructed, model="m", is_raw=True)
    with pytest.raises(InvalidRequestError, match="raw"):
        GenerateRequest(conversation=ASKED, model="m", tools=(TOOL,), is_raw=True)
    with pytest.raises(InvalidRequestError, match="raw"):
        GenerateRequest(conversation=ASKED, model="m", output=RegexFormat(pattern="a"), is_raw=True)
