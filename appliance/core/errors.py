"""Every error the appliance raises on purpose, in one tree.

    ApplianceError
    ├── InvalidRequestError            the caller must change something
    │   ├── ContextOverflowError       the prompt does not fit the context window
    │   ├── SchemaRejectedError        an output format that cannot be enforced
    │   ├── ConfigError                a setting that cannot be used
    │   ├── ModelNotFoundError         no card and no file of that name
    │   ├── ModelFileError             a weights file that is damaged, hostile or not a GGUF
    │   └── DocumentError              a document that cannot be read, with a typed reason
    ├── AuthenticationError            no or wrong credentials
    ├── RateLimitedError               the queue or a limit is full; says when to come back
    ├── DeadlineError                  a deadline of the request ran out
    ├── ProviderUnavailableError       nothing can serve the request now
    │   ├── NotEnoughMemoryError       the model does not fit; says what would
    │   ├── SourceUnavailableError     weights cannot be fetched from any source
    │   ├── StorageError               disk full, no permission, store locked
    │   └── EngineBuildError           the native engine cannot be compiled, or no build passes its self-test
    ├── PolicyRejectionError           a rule in code forbids it
    ├── MalformedOutputError           the model's output failed validation; keeps the raw text
    ├── CancelledRequestError          the caller cancelled
    ├── EngineCrashedError             the worker process died
    └── InternalError                  a bug of ours

`kind` is the closed set of failure kinds that results and the wire use; `retryable` says whether the
same request may succeed unchanged; `hint` is the next step a user can take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

FailureKind = Literal[
    "invalid_request",
    "context_overflow",
    "authentication",
    "rate_limited",
    "timeout",
    "provider_unavailable",
    "policy_rejection",
    "malformed_output",
    "cancelled",
    "engine_crashed",
    "internal",
]

Detail = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What failed, as a value that can cross a process or the wire."""

    kind: FailureKind
    message: str
    hint: str = ""
    retryable: bool = False
    details: dict[str, Detail] = field(default_factory=dict)


class ApplianceError(Exception):
    """The root; catch it to catch everything the appliance raises on purpose."""

    kind: ClassVar[FailureKind] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", **details: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def to_failure(self) -> Failure:
        """Return the same facts as a value."""
        return Failure(
            kind=self.kind,
            message=self.message,
            hint=self.hint,
            retryable=self.retryable,
            details=dict(self.details),
        )


class InvalidRequestError(ApplianceError):
    """The request cannot be served as it stands; the caller must change it."""

    kind: ClassVar[FailureKind] = "invalid_request"


class ContextOverflowError(InvalidRequestError):
    """The prompt has more tokens than the context window leaves room for."""

    kind = "context_overflow"

    def __init__(
        self,
        *,
        prompt_tokens: int,
        context_window: int,
        reserved_tokens: int = 0,
        never_cut: Mapping[str, int] | None = None,
    ) -> None:
        reserved = f", {reserved_tokens} of them kept free for the answer" if reserved_tokens else ""
        parts = ", ".join(f"{name} {tokens}" for name, tokens in (never_cut or {}).items())
        super().__init__(
            f"the prompt has {prompt_tokens} tokens, the context window holds {context_window}{reserved}"
            + (f"; never cut are: {parts}" if parts else ""),
            hint="shorten the prompt, or load the model with a larger context window",
            prompt_tokens=prompt_tokens,
            context_window=context_window,
            reserved_tokens=reserved_tokens,
        )
        self.prompt_tokens = prompt_tokens
        self.context_window = context_window
        self.reserved_tokens = reserved_tokens


class SchemaRejectedError(InvalidRequestError):
    """An output format that cannot be enforced; names the place and what to write instead."""

    def __init__(self, message: str, *, pointer: str = "", keyword: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint, pointer=pointer, keyword=keyword)
        self.pointer = pointer
        self.keyword = keyword


class ConfigError(InvalidRequestError):
    """A setting that is unknown or has an unusable value."""


class ModelNotFoundError(InvalidRequestError):
    """No model card and no weights file has this name."""


class ModelFileError(InvalidRequestError):
    """A weights file that is truncated, hostile, damaged or not a GGUF."""


class DocumentError(InvalidRequestError):
    """A document that cannot be read; `reason` is a short stable code."""

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint, reason=reason)
        self.reason = reason


class AuthenticationError(ApplianceError):
    """Credentials are missing, wrong or expired."""

    kind = "authentication"


class RateLimitedError(ApplianceError):
    """A limit is reached; `retry_after_s` says when to come back."""

    kind = "rate_limited"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: float, hint: str = "") -> None:
        super().__init__(message, hint=hint, retry_after_s=retry_after_s)
        self.retry_after_s = retry_after_s


class DeadlineError(ApplianceError):
    """A deadline ran out; `phase` is `connect`, `first_token`, `between_tokens` or `total`."""

    kind = "timeout"
    retryable = True

    def __init__(self, *, phase: str, limit_s: float) -> None:
        super().__init__(
            f"the {phase.replace('_', ' ')} deadline of {limit_s:g} s ran out",
            hint="raise the deadline, or ask for fewer tokens",
            phase=phase,
            limit_s=limit_s,
        )
        self.phase = phase


class ProviderUnavailableError(ApplianceError):
    """Nothing can serve the request at the moment."""

    kind = "provider_unavailable"
    retryable = True


class NotEnoughMemoryError(ProviderUnavailableError):
    """The model with this context does not fit in free memory."""

    retryable = False


class SourceUnavailableError(ProviderUnavailableError):
    """No source of a model's weights could be read."""


class StorageError(ProviderUnavailableError):
    """The disk is full, the path cannot be written, or another process holds the store."""

    retryable = False


class EngineBuildError(ProviderUnavailableError):
    """The native engine cannot be compiled here, or no build of it passes its self-test."""

    retryable = False


class PolicyRejectionError(ApplianceError):
    """A rule in code forbids the request."""

    kind = "policy_rejection"


class MalformedOutputError(ApplianceError):
    """The output failed validation; `raw_text` keeps what the model wrote."""

    kind = "malformed_output"
    retryable = True

    def __init__(self, message: str, *, raw_text: str, hint: str = "") -> None:
        super().__init__(message, hint=hint, raw_text=raw_text)
        self.raw_text = raw_text


class CancelledRequestError(ApplianceError):
    """The caller cancelled the request."""

    kind = "cancelled"


class EngineCrashedError(ApplianceError):
    """The process that owns the model died; the next request starts a new one."""

    kind = "engine_crashed"
    retryable = True


class InternalError(ApplianceError):
    """A bug in the appliance."""


_CLASSES: dict[FailureKind, type[ApplianceError]] = {
    "invalid_request": InvalidRequestError,
    "context_overflow": ContextOverflowError,
    "authentication": AuthenticationError,
    "rate_limited": RateLimitedError,
    "timeout": DeadlineError,
    "provider_unavailable": ProviderUnavailableError,
    "policy_rejection": PolicyRejectionError,
    "malformed_output": MalformedOutputError,
    "cancelled": CancelledRequestError,
    "engine_crashed": EngineCrashedError,
    "internal": InternalError,
}


def error_of(failure: Failure) -> ApplianceError:
    """Make an error of a failure that came over a wire, with the same facts."""
    error_class = _CLASSES[failure.kind]
    error = error_class.__new__(error_class)
    ApplianceError.__init__(error, failure.message, hint=failure.hint, **failure.details)
    for name, value in failure.details.items():
        setattr(error, name, value)
    return error
