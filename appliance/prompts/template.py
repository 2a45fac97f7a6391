"""A prompt template: its variables, who may fill them, and the messages they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from appliance.core.errors import ConfigError, InvalidRequestError
from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import (
    LOCAL_OWNER,
    Deadline,
    GenerateRequest,
    OutputFormat,
    SamplingParams,
    TextFormat,
)
from appliance.core.routing import RoutingNeeds
from appliance.core.untrusted import delimited

Filler = Literal["user", "operator"]

PLACEHOLDER = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class OperatorText:
    """Text of whoever runs the appliance: configuration and code, never what a user or document says."""

    value: str


@dataclass(frozen=True, slots=True)
class UserText:
    """Text of a user, a model or a document. No template puts it into the system message."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A named hole of a template. `is_delimited` sets what fills it between marks, as data.

    `choices`, where there are any, are all it may be.
    """

    name: str
    filler: Filler
    is_delimited: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A pair of messages that shows what is wanted."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompt:
    """The messages of a filled template, and which template it was."""

    prompt_id: str
    version: str
    system: str
    examples: tuple[Example, ...]
    user: str

    def conversation(self, history: Sequence[Message] = ()) -> Conversation:
        """Return system message, examples, what was said before, and the question."""
        system = (SystemMessage(text=self.system),) if self.system else ()
        shown = [
            message
            for example in self.examples
            for message in (UserMessage(text=example.user), AssistantMessage(text=example.assistant))
        ]
        return Conversation((*system, *shown, *history, UserMessage(text=self.user)))

    def request(
        self,
        model: str,
        *,
        owner: str = LOCAL_OWNER,
        sampling: SamplingParams | None = None,
        output: OutputFormat | None = None,
        deadline: Deadline | None = None,
        routing: RoutingNeeds | None = None,
    ) -> GenerateRequest:
        """Return the request that asks this, with id and version of the template."""
        return GenerateRequest(
            conversation=self.conversation(),
            model=model,
            owner=owner,
            sampling=sampling or SamplingParams(),
            output=output or TextFormat(),
            deadline=deadline or Deadline(),
            routing=routing or RoutingNeeds(),
            prompt_id=self.prompt_id,
            prompt_version=self.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate:
    """A template of one id and version; neither changes once it is used.

    Raises:
        ConfigError: a placeholder has no variable, a variable no placeholder, or the system text has a
            placeholder that a user fills.
    """

    id: str
    version: str
    user: str
    system: str = ""
    variables: Mapping[str, Variable] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        in_system, in_user = set(PLACEHOLDER.findall(self.system)), set(PLACEHOLDER.findall(self.user))
        self._check_braces()
        self._check_fillers(in_system, in_user)
        if unused := sorted(self.variables.keys() - in_system - in_user):
            raise ConfigError(f"{self.label}: the variable {unused[0]} stands in no text")

    @property
    def label(self) -> str:
        """Id and version in messages."""
        return f"{self.id}@{self.version}"

    def render(
        self,
        *,
        user: Mapping[str, UserText] | None = None,
        operator: Mapping[str, OperatorText] | None = None,
        examples: Sequence[Example] = (),
    ) -> RenderedPrompt:
        """Fill the template. `examples` stand after its own.

        Raises:
            InvalidRequestError: a variable is missing, unknown, filled by whom it is not for, or not one of
                its choices.
        """
        stated_by_user, stated_by_operator = user or {}, operator or {}
        self._check_names({*stated_by_user, *stated_by_operator})
        values: dict[str, str] = {}
        for variable in self.variables.values():
            stated = stated_by_user if variable.filler == "user" else stated_by_operator
            values[variable.name] = self._value(variable, stated.get(variable.name))
        return RenderedPrompt(
            prompt_id=self.id,
            version=self.version,
            system=_filled(self.system, values),
            examples=(*self.examples, *examples),
            user=_filled(self.user, values),
        )

    def _check_braces(self) -> None:
        for text in (self.system, self.user):
            if "{{" in PLACEHOLDER.sub("", text):
                raise ConfigError(
                    f"{self.label}: two braces open something that is no name of a variable",
                    hint="names have small letters, digits and _",
                )

    def _check_fillers(self, in_system: set[str], in_user: set[str]) -> None:
        for name in sorted(in_system | in_user):
            if name not in self.variables:
                raise ConfigError(f"{self.label}: {{{{{name}}}}} is no variable of it")
        for name in sorted(in_system):
            if self.variables[name].filler == "user":
                raise ConfigError(
                    f"{self.label}: {name} is filled by a user, so it cannot stand in the system text",
                    hint="put it into the user text",
                )

    def _check_names(self, stated: set[str]) -> None:
        for name in sorted(stated - self.variables.keys()):
            nearest = get_close_matches(name, self.variables, n=1)
            raise InvalidRequestError(
                f"the prompt {self.label} has no variable {name!r}",
                hint=f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(self.variables)}",
            )

    def _value(self, variable: Variable, stated: UserText | OperatorText | None) -> str:
        if stated is None:
            if variable.default is None:
                raise InvalidRequestError(
                    f"the prompt {self.label} needs {variable.name}, to be filled by the {variable.filler}"
                )
            return variable.default
        wanted = UserText if variable.filler == "user" else OperatorText
        if not isinstance(stated, wanted):
            raise InvalidRequestError(
                f"{variable.name} of the prompt {self.label} takes {wanted.__name__}, "
                f"not {type(stated).__name__}"
            )
        if variable.choices and stated.value not in variable.choices:
            raise InvalidRequestError(
                f"{variable.name} of the prompt {self.label} must be one of {', '.join(variable.choices)}"
            )
        return delimited(variable.name, [stated.value]) if variable.is_delimited else stated.value


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill every hole in one pass: a value that looks like a hole stays what it is."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)
