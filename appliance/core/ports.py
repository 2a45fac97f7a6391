"""Seams: the protocols that adapters implement. Implementations do not inherit from them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from appliance.core.capabilities import ProviderCapabilities
from appliance.core.events import StreamEvent
from appliance.core.requests import GenerateRequest

Vector = list[float]


class Provider(Protocol):
    """An adapter to one backend that runs models.

    `stream` yields events and ends with exactly one `Completed` or `Failed`; it raises only
    `asyncio.CancelledError`. Closing the stream with `aclose` cancels the request.
    """

    @property
    def name(self) -> str:
        """The provider's name, as it stands in results."""
        ...

    async def capabilities(self, model: str) -> ProviderCapabilities:
        """Say what the provider can do with a model.

        Raises:
            ModelNotFoundError: the provider does not know the model.
        """
        ...

    def stream(self, request: GenerateRequest) -> AsyncGenerator[StreamEvent]:
        """Answer a request as a stream of events."""
        ...

    async def load(self, model: str) -> None:
        """Make a model ready, so that the next request need not wait for it.

        Raises:
            ApplianceError: the model is not known or cannot be loaded.
        """
        ...

    async def unload(self, model: str) -> None:
        """Free what a model holds; nothing happens when it is not loaded.

        Raises:
            ApplianceError: the model is not known, or it is answering.
        """
        ...

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Count the prompt tokens of a request, the chat template's own included.

        Raises:
            ApplianceError: the model is not known or cannot be loaded.
        """
        ...

    async def close(self) -> None:
        """Release every resource; running requests end as cancelled."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one fixed dimension, L2-normalised."""

    @property
    def digest(self) -> str:
        """The sha256 that identifies weights and settings; vectors of different digests must not mix."""
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    @property
    def max_input_tokens(self) -> int:
        """Longest text in tokens that is embedded whole."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text before any truncation, special tokens included."""
        ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts in order.

        Raises:
            InvalidRequestError: a text is longer than `max_input_tokens`; nothing is cut in silence.
        """
        ...


class Clock(Protocol):
    """Monotonic time in seconds and a way to wait, so that tests never wait."""

    def now_s(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        ...
