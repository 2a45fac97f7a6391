"""Any OpenAI-compatible URL as a target: streams chat completions and takes the time of every chunk at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from appliance.core.errors import InvalidRequestError, PolicyRejectionError, ProviderUnavailableError
from benchmarks.answers import Answer, LoadRequest
from benchmarks.event_splitter import EventSplitter, EventTooLargeError
from benchmarks.exact_text import CountTokens
from benchmarks.metrics import RequestTrace
from benchmarks.noise import LOOPBACK, listening_pid
from benchmarks.received import SHOWN_CHARACTERS, NoEventError, Received, whole, words

_CONNECT_S = 10.0
_DEFAULT_READ_S = 600.0
# One piece in every vocabulary of a model that knows English.
_SHORT_TEXT = "time"


def base_of(url: str) -> str:
    """Return the part of an URL before `/chat/completions`: `http://host:8080` becomes `http://host:8080/v1`.

    Raises:
        InvalidRequestError: it is no http or https URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidRequestError(
            f"{url!r} is no URL of a server", hint="write http://127.0.0.1:8080 or https://host/v1"
        )
    if parts.username or parts.password:
        raise InvalidRequestError(
            "the URL holds a password, which would stand in every record",
            hint="name the environment variable that holds the token with --token-env",
        )
    if parts.query or parts.fragment:
        raise InvalidRequestError(
            "the URL has a part after ? or #, which would not be sent; a key there would stand in logs",
            hint="name the environment variable that holds the key with --token-env, and leave that part out",
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def refuse_when_offline(url: str, *, is_offline: bool) -> None:
    """Let only this machine be reached where the settings forbid every other.

    Raises:
        PolicyRejectionError: the URL is of another machine.
    """
    host = urlsplit(url).hostname or ""
    if is_offline and host not in LOOPBACK:
        raise PolicyRejectionError(
            f"the setting `offline` forbids a connection to {host}", hint="measure a server on this machine"
        )


class HttpTarget:
    """A server. Use it as an async context.

    Every request has a connection of its own: one that is kept may be closed by the server just as it is used again.
    The time to connect comes before a request is sent, so no latency holds it.

    Args:
        count: counts prompts where the server cannot; None asks the server.
        extra: more fields of each request's body, such as `{"ignore_eos": true}`.
        transport: what carries requests instead of the network, for tests.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        token: str = "",
        extra: Mapping[str, object] | None = None,
        count: CountTokens | None = None,
        read_s: float = _DEFAULT_READ_S,
        now: Callable[[], float] = perf_counter,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base = base_of(url)
        self.model = model
        self._extra = dict(extra or {})
        self._count = count
        self._now = now
        self._overhead: int | None = None
        self._has_tokenize = True
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(read_s, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @property
    def name(self) -> str:
        """The base of the URL."""
        return self.base

    def server_pid(self) -> int | None:
        """The server's process where it runs on this machine and the system tells."""
        parts = urlsplit(self.base)
        return listening_pid(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))

    async def answer(self, request: LoadRequest) -> Answer:
        """Send a request and receive its whole answer."""
        received = Received(sent_s=self._now())
        try:
            await self._stream(self._body(request), received)
        except (NoEventError, EventTooLargeError) as exc:
            received.failure = received.failure or str(exc)
        except (httpx.HTTPError, ValueError) as exc:
            received.failure = received.failure or f"{type(exc).__name__}: {exc}"[:SHOWN_CHARACTERS]
        return _answer_of(request, received, received.ended_s or self._now())

    async def count_tokens(self, text: str) -> int:
        """Count the tokens of a prompt with this text, the server's template included.

        This appliance and vLLM count a conversation; llama-server counts bare text, to which the template's own
        tokens are added.

        Raises:
            InvalidRequestError: nothing here counts tokens.
        """
        if self._count is not None:
            return await self._count(text)
        counted = await self._count_conversation(text)
        if counted is not None:
            return counted
        tokens = await self._tokenize(text)
        if self._overhead is None:
            self._overhead = await self._template_tokens()
        return tokens + self._overhead

    async def count_output(self, text: str) -> int | None:
        """Count an answer's text: by the model that counts prompts, or by the server's `/tokenize`."""
        if self._count is not None:
            return await self._count(text) - await self._count(_SHORT_TEXT) + 1
        if not self._has_tokenize:
            return None
        tokens = (await self._ask_tokenize({"content": text})).get("tokens")
        self._has_tokenize = isinstance(tokens, list)
        return len(tokens) if isinstance(tokens, list) else None

    async def model_names(self) -> list[str]:
        """Models the server offers.

        Raises:
            ProviderUnavailableError: it cannot be reached, or says no.
        """
        try:
            reply = await self._client.get(f"{self.base}/models")
        except httpx.HTTPError as exc:
            raise ProviderUnavailableError(
                f"{self.base} cannot be reached: {type(exc).__name__} {exc}".strip(),
                hint="start the server, or correct the URL",
            ) from exc
        if reply.status_code != httpx.codes.OK:
            raise ProviderUnavailableError(
                f"{self.base}/models answered {reply.status_code}: {words(reply.text)}"
            )
        try:
            return [str(model["id"]) for model in reply.json()["data"]]
        except (ValueError, KeyError, TypeError) as exc:
            raise ProviderUnavailableError(f"{self.base}/models answered no list of models") from exc

    async def _stream(self, body: Mapping[str, object], received: Received) -> None:
        url = f"{self.base}/chat/completions"
        splitter = EventSplitter()
        async with self._client.stream(
            "POST", url, json=body, extensions=self._noting_sent(received)
        ) as reply:
            if reply.status_code != httpx.codes.OK:
                received.failure = (
                    f"HTTP {reply.status_code}: {words((await reply.aread()).decode(errors='replace'))}"
                )
                return
            received.content_type = reply.headers.get("content-type", "")
            async for data in reply.aiter_raw():
                at_s = received.ended_s = self._now()
                for event in splitter.feed(data):
                    received.take(event, at_s)

    def _noting_sent(self, received: Received) -> dict[str, object]:
        """Note when the request's first byte is written: building it and connecting are no time of the server."""

        async def trace(event: str, _info: Mapping[str, object]) -> None:
            if event.endswith("send_request_headers.started"):
                received.sent_s = self._now()

        return {"trace": trace}

    def _body(self, request: LoadRequest) -> dict[str, object]:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": request.text}],
            "max_tokens": request.output_tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._extra,
        }

    async def _count_conversation(self, text: str) -> int | None:
        """The server's count of a whole prompt; None where it has none."""
        message = {"role": "user", "content": text}
        reply = await self._ask_tokenize({"model": self.model, "messages": [message]})
        return whole(reply.get("count"))

    async def _ask_tokenize(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """The server's answer to `/tokenize`; nothing where it has no such path or wants another body."""
        for root in dict.fromkeys([self.base.removesuffix("/v1"), self.base]):
            try:
                reply = await self._client.post(f"{root}/tokenize", json=body)
            except httpx.HTTPError as exc:
                raise ProviderUnavailableError(
                    f"{root}/tokenize: {type(exc).__name__} {exc}".strip()
                ) from exc
            with contextlib.suppress(ValueError):
                value = reply.json() if reply.status_code == httpx.codes.OK else None
                if isinstance(value, dict):
                    return value
        return {}

    async def _tokenize(self, text: str) -> int:
        tokens = (await self._ask_tokenize({"content": text})).get("tokens")
        if isinstance(tokens, list):
            return len(tokens)
        raise InvalidRequestError(
            f"{self.base} has no /tokenize, so the lengths of prompts cannot be met exactly",
            hint="name a model on this machine with the same vocabulary: --tokenizer MODEL",
        )

    async def _template_tokens(self) -> int:
        """Tokens the server's template adds: its own count of a short prompt minus that of the bare text."""
        text = _SHORT_TEXT
        probe = LoadRequest(number=-1, text=text, input_tokens=0, output_tokens=1, key="probe")
        answer = await self.answer(probe)
        if answer.input_tokens is None:
            raise InvalidRequestError(
                f"{self.base} does not say how many tokens a prompt has"
                + (f": {answer.failure}" if answer.failure else ""),
                hint="name a model on this machine with the same vocabulary: --tokenizer MODEL",
            )
        return answer.input_tokens - await self._tokenize(text)


def _answer_of(request: LoadRequest, received: Received, ended_s: float) -> Answer:
    chunks = len(received.times_s)
    failure = received.failure or received.missing()
    return Answer(
        request=request,
        trace=RequestTrace(
            sent_s=received.sent_s,
            chunk_times_s=tuple(received.times_s),
            ended_s=ended_s,
            output_tokens=chunks if received.output_tokens is None else received.output_tokens,
        ),
        input_tokens=received.input_tokens,
        cached_tokens=received.cached_tokens,
        finish_reason=received.finish_reason,
        phases=received.phases,
        failure=failure,
        does_target_count=received.output_tokens is not None,
        text="" if received.output_tokens is not None else "".join(received.texts),
    )
