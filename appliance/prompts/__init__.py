"""Versioned prompts: templates as files, few-shot examples, chains, and experiments with prompts.

What a user wrote is a `UserText` and can only stand in messages of the user; the system message is made of
template text and of `OperatorText`.
"""

from appliance.prompts.library import PromptLibrary, shipped_prompts
from appliance.prompts.template import OperatorText, PromptTemplate, RenderedPrompt, UserText

__all__ = [
    "OperatorText",
    "PromptLibrary",
    "PromptTemplate",
    "RenderedPrompt",
    "UserText",
    "shipped_prompts",
]
