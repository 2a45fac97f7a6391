"""What every JSON body has in common: closed, strict about types, no NaN; and pieces that several routes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

JsonObject = dict[str, object]

ModelName = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=4_000_000)]

IGNORED_HEADER = "x-appliance-ignored"


class Wire(BaseModel):
    """A JSON object of which every field is known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def stated_names(body: BaseModel, names: Sequence[str]) -> tuple[str, ...]:
    """Return those fields that a request states and this server knows but does not use."""
    return tuple(name for name in names if getattr(body, name, None) is not None)


def ignored_headers(ignored: Sequence[str]) -> Mapping[str, str]:
    """Return the header that lists what was not used."""
    return {IGNORED_HEADER: ", ".join(ignored)} if ignored else {}
