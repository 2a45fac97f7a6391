"""What the answer to one request must be, told to the model beforehand and checked on the text afterwards."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.core.errors import InvalidRequestError, MalformedOutputError
from appliance.core.messages import AssistantMessage, Conversation, SystemMessage
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, NamedTool, TextFormat

if TYPE_CHECKING:
    from appliance.structured.admission import Admitted

_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Knows the form of one answer. `request` is the caller's, with the format of `answer_type` if it has none.

    `told` is the same request as a provider gets it: `format_text`, which describes the form, stands at
    the end of the system message. It is text of the operator, and there it is part of the prefix that
    later requests of the same form reuse.
    """

    request: GenerateRequest
    answer_type: object | None = None
    admitted: Admitted | None = None
    format_text: str = ""

    @property
    def told(self) -> GenerateRequest:
        """The request as the provider gets it."""
        if not self.format_text:
            return self.request
        return replace(self.request, conversation=_with_system(self.request.conversation, self.format_text))

    @property
    def has_rules(self) -> bool:
        """Whether an answer can be wrong in form."""
        return self.admitted is not None or bool(self.request.tools)

    async def check(self, message: AssistantMessage) -> object | None:
        """Return the value of an answer: the parsed JSON, the instance of the type, or the checked text.

        Raises:
            MalformedOutputError: the answer is not what was asked for.
        """
        if not self.has_rules:
            return None
        return await asyncio.to_thread(self._check, message)

    def _check(self, message: AssistantMessage) -> object | None:
        from appliance.structured.conformity import problems_of

        if self.request.tools:
            self._check_calls(message)
        if self.admitted is None or isinstance(self.request.output, TextFormat):
            return None
        text = message.text
        problems = [(problem.pointer, problem.message) for problem in problems_of(self.admitted, text)]
        if problems:
            raise _malformed(problems, text)
        if self.answer_type is not None:
            return self._instance(text)
        is_json = isinstance(self.request.output, JsonSchemaFormat)
        value: object = json.loads(text) if is_json else text
        return value

    def _instance(self, text: str) -> object:
        from pydantic import TypeAdapter, ValidationError

        adapter: TypeAdapter[object] = TypeAdapter(self.answer_type)  # type: ignore[arg-type]
        is_json = isinstance(self.request.output, JsonSchemaFormat)
        try:
            return adapter.validate_json(text) if is_json else adapter.validate_python(text)
        except ValidationError as exc:
            found = exc.errors(include_url=False, include_context=False, include_input=False)
            problems = [("".join(f"/{part}" for part in error["loc"]), error["msg"]) for error in found]
            raise _malformed(problems, text) from exc
        except Exception as exc:  # the caller's own code
            name = getattr(self.answer_type, "__name__", repr(self.answer_type))
            raise InvalidRequestError(
                f"a validator of {name} failed with {type(exc).__name__}: {exc}",
                hint="raise ValueError in a validator for a value that is not allowed",
            ) from exc

    def _check_calls(self, message: AssistantMessage) -> None:
        from appliance.structured.validator import validator_of

        choice = self.request.tool_choice
        names = [call.name for call in message.tool_calls]
        if problem := _choice_problem(self.request, names):
            raise _malformed([("", problem)], message.text)
        parameters = {tool.name: tool.parameters_json or "{}" for tool in self.request.tools}
        for call in message.tool_calls if choice != "none" else ():
            _, problems = validator_of(parameters[call.name]).check_text(call.arguments_json)
            if problems:
                found = [(f"{call.name}{problem.pointer}", problem.message) for problem in problems]
                raise _malformed(found, call.arguments_json)


async def judge_of(request: GenerateRequest, answer_type: object | None = None) -> Judge:
    """Admit what a request asks of its answer, in a thread: a large schema takes a while.

    Raises:
        SchemaRejectedError: it cannot be enforced; names the place, the keyword and a way out.
        InvalidRequestError: the request asks for things that exclude each other.
    """
    is_free = isinstance(request.output, TextFormat) and not request.tools
    if is_free and answer_type is None:
        return Judge(request=request)
    return await asyncio.to_thread(_admitted, request, answer_type)


def _admitted(request: GenerateRequest, answer_type: object | None) -> Judge:
    from appliance.structured.python_types import format_of_type
    from appliance.structured.requested import admit_request

    if answer_type is not None and isinstance(request.output, TextFormat):
        request = replace(request, output=format_of_type(answer_type))
    admitted = admit_request(request)
    format_text = admitted.prompt_text() if admitted is not None else ""
    return Judge(request=request, answer_type=answer_type, admitted=admitted, format_text=format_text)


def _with_system(conversation: Conversation, text: str) -> Conversation:
    first = conversation.messages[0]
    if isinstance(first, SystemMessage):
        joined = f"{first.text}\n\n{text}" if first.text else text
        return replace(conversation, messages=(SystemMessage(text=joined), *conversation.messages[1:]))
    return replace(conversation, messages=(SystemMessage(text=text), *conversation.messages))


def _choice_problem(request: GenerateRequest, names: list[str]) -> str:
    choice = request.tool_choice
    offered = {tool.name for tool in request.tools}
    allowed = {choice.name} if isinstance(choice, NamedTool) else offered if choice != "none" else set()
    wrong = sorted(set(names) - allowed)
    if wrong:
        return f"the model called {wrong[0]!r}, which it may not"
    if not names and choice not in ("auto", "none"):
        return "the model called no tool although it must"
    if len(names) > 1 and not request.allows_several_calls:
        return f"the model made {len(names)} tool calls although it may make one"
    return ""


def _malformed(problems: list[tuple[str, str]], raw_text: str) -> MalformedOutputError:
    listed = "; ".join(f"{place or '/'}: {message}" for place, message in problems[:_SHOWN_PROBLEMS])
    return MalformedOutputError(
        f"the answer is not what was asked for: {listed}",
        raw_text=raw_text,
        hint="simplify the form, say in the question what is meant, or ask a larger model",
    )
