"""Templates by id and version. A digest for each is kept beside them: what was used once cannot change unseen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from appliance.catalog.prompt_files import shipped_prompt_files
from appliance.core.errors import ConfigError, InvalidRequestError
from appliance.prompts.template import PromptTemplate
from appliance.prompts.template_file import parse_template

DIGESTS_FILE = "digests.toml"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class PromptLibrary:
    """A set of templates that are what their digests say.

    Raises:
        ConfigError: a template is not valid, stands twice, has no digest, or is no longer what it was.
    """

    def __init__(self, files: Mapping[str, str], *, origin: str) -> None:
        digests = _digests_of(files.get(DIGESTS_FILE, ""), f"{origin}/{DIGESTS_FILE}")
        self._templates: dict[tuple[str, int], PromptTemplate] = {}
        for name in sorted(files.keys() - {DIGESTS_FILE}):
            template = parse_template(files[name], f"{origin}/{name}")
            _check_digest(template, digests.get(template.label), digest_of(files[name]), f"{origin}/{name}")
            key = (template.id, int(template.version))
            if key in self._templates:
                raise ConfigError(f"{origin}/{name}: {template.label} stands in another file as well")
            self._templates[key] = template

    def get(self, prompt_id: str, version: str = "") -> PromptTemplate:
        """Return a template; without a version, the highest.

        Raises:
            InvalidRequestError: there is none of that id or version.
        """
        versions = {number: found for (known, number), found in self._templates.items() if known == prompt_id}
        if not versions:
            raise InvalidRequestError(
                f"there is no prompt {prompt_id!r}", hint=f"there are {', '.join(self.ids())}"
            )
        if not version:
            return versions[max(versions)]
        found = next((known for known in versions.values() if known.version == version), None)
        if found is None:
            listed = ", ".join(str(number) for number in sorted(versions))
            raise InvalidRequestError(
                f"the prompt {prompt_id!r} has no version {version!r}", hint=f"it has {listed}"
            )
        return found

    def ids(self) -> list[str]:
        """Name the templates."""
        return sorted({prompt_id for prompt_id, _ in self._templates})


@cache
def shipped_prompts() -> PromptLibrary:
    """Return the templates that come with the appliance."""
    return PromptLibrary(shipped_prompt_files(), origin="models/prompts")


def read_prompts(folder: Path) -> PromptLibrary:
    """Return the templates of a folder.

    Raises:
        ConfigError: as `PromptLibrary`, or a file cannot be read.
    """
    return PromptLibrary(_texts_of(folder), origin=str(folder))


def seal_prompts(folder: Path) -> list[str]:
    """Add the digests of new templates to a folder's list; return what was added.

    Raises:
        ConfigError: a template that has a digest is no longer what it was.
    """
    texts = _texts_of(folder)
    digests = _digests_of(texts.get(DIGESTS_FILE, ""), f"{folder}/{DIGESTS_FILE}")
    added: list[str] = []
    for name in sorted(texts.keys() - {DIGESTS_FILE}):
        template, digest = parse_template(texts[name], f"{folder}/{name}"), digest_of(texts[name])
        if template.label not in digests:
            digests[template.label] = digest
            added.append(template.label)
        _check_digest(template, digests[template.label], digest, f"{folder}/{name}")
    lines = [f'"{label}" = "{digests[label]}"\n' for label in sorted(digests)]
    (folder / DIGESTS_FILE).write_text("".join(lines), encoding="utf-8")
    return added


def digest_of(text: str) -> str:
    """Return the digest of a template's text; how its lines end does not matter."""
    return sha256(text.replace("\r\n", "\n").encode()).hexdigest()


def _check_digest(template: PromptTemplate, stated: str | None, found: str, origin: str) -> None:
    if stated is None:
        raise ConfigError(
            f"{origin}: {template.label} has no digest in {DIGESTS_FILE}",
            hint="`python -m appliance.prompts FOLDER` adds it",
        )
    if stated != found:
        raise ConfigError(
            f"{origin}: {template.label} is no longer what it was when it got its digest",
            hint="give a changed prompt a new version",
        )


def _digests_of(text: str, origin: str) -> dict[str, str]:
    try:
        values: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{origin} is not valid TOML: {exc}") from exc
    for label, digest in values.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ConfigError(f"{origin}: {label} has no sha256 of 64 digits")
    return {label: str(digest) for label, digest in values.items()}


def _texts_of(folder: Path) -> dict[str, str]:
    try:
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.toml"))}
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"a prompt in {folder} cannot be read: {exc}") from exc
