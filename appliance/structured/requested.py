"""What a whole request asks of its answer: an output format, or the tools it may or must call."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from appliance.core.errors import InvalidRequestError
from appliance.core.requests import GenerateRequest, TextFormat, ToolChoice, ToolSpec
from appliance.structured.admission import Admitted, admit
from appliance.structured.tool_calls import admit_tool_calls

_CACHE_SIZE: Final = 64


def admit_request(request: GenerateRequest) -> Admitted | None:
    """Admit what a request asks of its answer, before a model runs; `None` when that is free text.

    Raises:
        SchemaRejectedError: the format or the parameters of a tool cannot be enforced.
        InvalidRequestError: the request asks for things that exclude each other.
    """
    calls = _admit_calls(request.tools, request.tool_choice, request.allows_several_calls)
    is_free = isinstance(request.output, TextFormat)
    if is_free and calls is None:
        return None
    if not is_free and calls is not None:
        raise InvalidRequestError(
            "an answer cannot both call tools and follow an output format",
            hint="leave out the tools or the format, or set the tool choice to none",
        )
    if request.sampling.stop:
        raise InvalidRequestError(
            "stop strings would cut an answer that must be whole",
            hint="leave out the stop strings: an answer of a stated form ends by itself",
        )
    return calls if calls is not None else admit(request.output)


def may_call_tools(request: GenerateRequest) -> bool:
    """Whether the answer may hold tool calls."""
    return bool(request.tools) and request.tool_choice != "none"


@lru_cache(maxsize=_CACHE_SIZE)
def _admit_calls(tools: tuple[ToolSpec, ...], choice: ToolChoice, allows_several: bool) -> Admitted | None:
    return admit_tool_calls(tools, choice, allows_several=allows_several)
