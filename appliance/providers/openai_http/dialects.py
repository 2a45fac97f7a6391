"""Which fields beyond OpenAI's a kind of server takes, so that nothing asked for is dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DialectName = Literal["llama_server", "vllm", "ollama", "lm_studio", "appliance", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A kind of server. `fields` maps our names of sampling parameters to its own.

    `reports_progress`: prefill progress can be asked for. `isolates_owners`: it takes a salt that keeps the
    prefix cache of one owner from another. `can_skip_cache`: the prefix cache can be left out of a request.
    `cuts_prompts`: it drops what does not fit into its window and says nothing. `goes_on`: it can be told to go on
    inside the assistant's turn that stands last, and writes only what is new.
    """

    name: DialectName
    fields: Mapping[str, str] = field(default_factory=dict)
    takes_logit_bias: bool = True
    reports_progress: bool = False
    isolates_owners: bool = False
    can_skip_cache: bool = False
    cuts_prompts: bool = False
    goes_on: bool = False


LLAMA_SERVER = Dialect(
    name="llama_server",
    fields={
        "top_k": "top_k",
        "min_p": "min_p",
        "repeat_penalty": "repeat_penalty",
        "penalty_last_tokens": "repeat_last_n",
    },
    reports_progress=True,
    can_skip_cache=True,
    goes_on=True,
)
VLLM = Dialect(
    name="vllm",
    fields={"top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty"},
    isolates_owners=True,
    goes_on=True,
)
OLLAMA = Dialect(name="ollama", takes_logit_bias=False, cuts_prompts=True)
LM_STUDIO = Dialect(
    name="lm_studio", fields={"top_k": "top_k", "repeat_penalty": "repeat_penalty"}, cuts_prompts=True
)
APPLIANCE = Dialect(
    name="appliance",
    fields={
        "top_k": "top_k",
        "min_p": "min_p",
        "repeat_penalty": "repeat_penalty",
        "reasoning_budget": "reasoning_budget",
    },
    goes_on=True,
)
UNKNOWN = Dialect(name="unknown")

BY_OWNER: Mapping[str, Dialect] = {
    "llamacpp": LLAMA_SERVER,
    "vllm": VLLM,
    "library": OLLAMA,
    "organization_owner": LM_STUDIO,
    "appliance": APPLIANCE,
}
"""Servers by what they write as `owned_by` of their models."""
