"""How a model will be loaded by the settings, for the plan of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.catalog.memory_plan import LoadShape, cache_types

if TYPE_CHECKING:
    from appliance.config import Settings


def load_shape(settings: Settings, *, context_tokens: int, parallel: int | None = None) -> LoadShape:
    """Shape of one load.

    Args:
        context_tokens: context window of one request.
        parallel: requests at once; None takes the setting.
    """
    key_type, value_type = cache_types(settings.kv_type)
    return LoadShape(
        context_tokens=context_tokens,
        sequences=parallel or settings.parallel,
        key_type=key_type,
        value_type=value_type,
        batch_tokens=settings.batch_tokens,
        ubatch_tokens=settings.ubatch_tokens,
        prefill_tokens=settings.prefill_chunk_tokens,
        prefix_ram_bytes=settings.prefix_ram_bytes,
    )
