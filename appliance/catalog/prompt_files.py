"""The prompt templates that come with the appliance, as texts by file name."""

from __future__ import annotations

from importlib.resources import files


def shipped_prompt_files() -> dict[str, str]:
    """Return every template and the list of their digests."""
    folder = files("models").joinpath("prompts")
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
