"""Prompt tokens of a request: asked of the server where it has a way to count, else estimated."""

from __future__ import annotations

from appliance.core.errors import ApplianceError, ContextOverflowError
from appliance.core.requests import GenerateRequest
from appliance.providers.openai_http.body import wire_messages, wire_tools, wire_turns
from appliance.providers.openai_http.connection import Connection
from appliance.providers.openai_http.foreign_json import JsonObject, count_at, list_at, text_at
from appliance.providers.openai_http.served import ServedModel

_TOKENS_PER_MESSAGE = 8
_BYTES_PER_TOKEN = 3
_USUAL_BYTES_PER_TOKEN = 4
_COUNTING_S = 30.0


async def count_prompt(connection: Connection, request: GenerateRequest, model: ServedModel) -> int | None:
    """Return the prompt's tokens as the server counts them, or `None` where it does not.

    Raises:
        ApplianceError: a server that counts refused, or cannot be reached.
    """
    body = wire_turns(request)
    if request.tools:
        body["tools"] = wire_tools(request.tools)
    match model.dialect.name:
        case "llama_server":
            prompt = text_at(await connection.post("/apply-template", body, timeout_s=_COUNTING_S), "prompt")
            text: JsonObject = {"content": prompt, "add_special": True, "parse_special": True}
            return len(list_at(await connection.post("/tokenize", text, timeout_s=_COUNTING_S), "tokens"))
        case "appliance" if request.tools:
            return None
        case "vllm" | "appliance":
            body |= {"model": model.name}
            return await _counted_by_tokenize(connection, body)
        case _:
            return None


async def _counted_by_tokenize(connection: Connection, body: JsonObject) -> int | None:
    try:
        content = await connection.post("/tokenize", body, timeout_s=_COUNTING_S)
    except ApplianceError as exc:
        if exc.details.get("status") in (404, 405, 501):
            return None
        raise
    return count_at(content, "count")


def estimate_prompt(request: GenerateRequest) -> int:
    """Return about how many tokens a prompt has, rather too many: a byte pair never stands for less than it."""
    texts = [str(message) for message in wire_messages(request)] + [
        str(tool) for tool in wire_tools(request.tools)
    ]
    return sum(estimate_text(text) + _TOKENS_PER_MESSAGE for text in texts)


def check_fits(request: GenerateRequest, model: ServedModel, server: str) -> None:
    """Refuse a prompt that a server would cut in silence, as far as that can be told without its tokenizer.

    Raises:
        ContextOverflowError: it is longer than the window by the usual length of a token.
    """
    if not model.dialect.cuts_prompts or not model.context_window:
        return
    size_bytes = sum(len(str(message).encode()) for message in wire_messages(request))
    tokens = size_bytes // _USUAL_BYTES_PER_TOKEN
    if tokens > model.context_window:
        error = ContextOverflowError(prompt_tokens=tokens, context_window=model.context_window)
        error.message = (
            f"the prompt has about {tokens} tokens, the context window holds {model.context_window}; {server} "
            "would leave out the rest and not say so"
        )
        raise error


def estimate_text(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)
