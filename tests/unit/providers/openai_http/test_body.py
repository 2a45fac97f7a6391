"""A request reaches each kind of server whole, or is refused by name."""

import json

import pytest

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import (
    ChoiceFormat,
    GenerateRequest,
    GrammarFormat,
    JsonSchemaFormat,
    NamedTool,
    RegexFormat,
    SamplingParams,
    ToolSpec,
)
from appliance.providers.openai_http.body import request_body
from appliance.providers.openai_http.dialects import LLAMA_SERVER, OLLAMA, UNKNOWN, VLLM, Dialect

TOOL = ToolSpec(name="get", description="Gets", parameters_json='{"type": "object"}')


def body(dialect: Dialect = UNKNOWN, *, reuses_prefix: bool = True, **changes: object) -> dict[str, object]:
    values: dict[str, object] = {
        "conversation": Conversation.of(UserMessage(text="hi")),
        "model": "box/m",
        **changes,
    }
    request = GenerateRequest(**values)  # type: ignore[arg-type]
    return request_body(request, model="m", dialect=dialect, asks_usage=True, reuses_prefix=reuses_prefix)


def sampled(**changes: object) -> SamplingParams:
    return SamplingParams(**changes)  # type: ignore[arg-type]


def test_a_whole_conversation_keeps_roles_calls_and_results() -> None:
    call = ToolCall(call_id="c1", name="get", arguments_json='{"x": 1}')
    conversation = Conversation.of(
        SystemMessage(text="be brief"),
        UserMessage(text="what?"),
        AssistantMessage(reasoning="secret", tool_calls=(call,)),
        ToolMessage(call_id="c1", name="get", text="42"),
    )

    assert body(conversation=conversation, tools=(TOOL,))["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "what?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"x": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]


def test_sampling_is_named_as_each_server_names_it() -> None:
    sampling = sampled(top_k=7, min_p=0.2, repeat_penalty=1.1, seed=3, stop=("x",), max_tokens=5)

    llama, vllm = body(LLAMA_SERVER, sampling=sampling), body(VLLM, sampling=sampling)

    assert (llama["top_k"], llama["min_p"], llama["repeat_penalty"], llama["repeat_last_n"]) == (
        7,
        0.2,
        1.1,
        64,
    )
    assert (vllm["top_k"], vllm["min_p"], vllm["repetition_penalty"]) == (7, 0.2, 1.1)
    assert (llama["seed"], llama["stop"], llama["max_tokens"]) == (3, ["x"], 5)


@pytest.mark.parametrize(
    "dialect, sampling, name",
    [
        (UNKNOWN, {"top_k": 7}, "top_k"),
        (UNKNOWN, {"repeat_penalty": 1.2}, "repeat_penalty"),
        (OLLAMA, {"logit_bias": {1: 5.0}}, "logit_bias"),
        (VLLM, {"penalty_last_tokens": 9}, "penalty_last_tokens"),
        (LLAMA_SERVER, {"reasoning_budget": 9}, "reasoning_budget"),
    ],
)
def test_what_a_server_does_not_take_is_refused_and_not_dropped(
    dialect: Dialect, sampling: dict[str, object], name: str
) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        body(dialect, sampling=sampled(**sampling))


def test_what_changes_nothing_when_greedy_is_no_reason_to_refuse() -> None:
    assert "top_k" not in body(UNKNOWN, sampling=sampled(temperature=0.0, top_k=7, min_p=0.5))


@pytest.mark.parametrize(
    "output, schema",
    [
        (JsonSchemaFormat(schema_json='{"type": "integer"}'), {"type": "integer"}),
        (ChoiceFormat(choices=("a", "b")), {"enum": ["a", "b"]}),
        (RegexFormat(pattern="a|b"), {"type": "string", "pattern": "^(?:a|b)$"}),
    ],
)
def test_forms_are_told_as_schemas(output: object, schema: object) -> None:
    form = body(output=output)["response_format"]

    assert json.loads(json.dumps(form))["json_schema"]["schema"] == schema


def test_a_grammar_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="grammar"):
        body(output=GrammarFormat(grammar='start: "a"'))


def test_tools_and_the_choice_among_them_are_told() -> None:
    told = body(tools=(TOOL,), tool_choice=NamedTool(name="get"), allows_several_calls=False)

    assert told["tool_choice"] == {"type": "function", "function": {"name": "get"}}
    assert told["parallel_tool_calls"] is False


def test_owners_are_kept_apart_in_a_prefix_cache_and_not_named() -> None:
    ada, bob = (body(VLLM, owner=owner)["cache_salt"] for owner in ("ada", "bob"))

    assert ada != bob
    assert "ada" not in str(ada)
    assert body(VLLM, owner="ada")["cache_salt"] == ada


def test_a_prefix_that_may_be_of_another_owner_is_not_reused() -> None:
    assert body(LLAMA_SERVER, reuses_prefix=False)["cache_prompt"] is False
    assert "cache_prompt" not in body(UNKNOWN, reuses_prefix=False)


def test_log_probabilities_are_asked_for_with_one_alternative_at_least() -> None:
    assert "logprobs" not in body()
    asked = body(sampling=sampled(top_logprobs=0))
    assert (asked["logprobs"], asked["top_logprobs"]) == (True, 1)
    assert body(sampling=sampled(top_logprobs=7))["top_logprobs"] == 7


def test_log_probabilities_of_what_arrives_as_a_json_string_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="tokens are not those of the text"):
        body(sampling=sampled(top_logprobs=0), output=ChoiceFormat(choices=("yes", "no")))
