"""Rules that take personal data and secrets out of a text before it is kept."""

from __future__ import annotations

import re

LONGEST_CONTENT = 4000

_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("key", re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL)),
    ("secret", re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abp]|hf|glpat|AKIA|eyJ)[-_A-Za-z0-9.]{12,}")),
    ("secret", re.compile(r"(?i)\b(password|passwd|passwort|secret|token|api[_-]?key)\b(\s*[:=]\s*)\S+")),
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("url", re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)),
    ("iban", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?\b")),
    ("address", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b")),
    ("number", re.compile(r"(?<!\w)\+?\d(?:[ ()/.-]{0,2}\d){6,}(?!\w)")),
)


def redact(text: str) -> str:
    """Replace what a rule finds by its name in brackets, and cut the text to a bound, saying so."""
    for name, pattern in _RULES:
        text = pattern.sub(f"[{name}]", text)
    if len(text) <= LONGEST_CONTENT:
        return text
    return f"{text[:LONGEST_CONTENT]}[... {len(text) - LONGEST_CONTENT} more characters]"
