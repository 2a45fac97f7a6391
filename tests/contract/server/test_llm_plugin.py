"""The `llm` command's own OpenAI plugin talks to the server, configured as its documentation says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.live_server import LiveServer


def ask(server: LiveServer, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: here\n  model_name: scripted:greet\n  api_base: {server.url}/v1\n  api_key_name: here\n",
        encoding="utf-8",
    )
    return subprocess.run(
        [sys.executable, "-m", "llm", *arguments],
        env={**os.environ, "LLM_USER_PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_prompt_is_answered(server: LiveServer, tmp_path: Path) -> None:
    finished = ask(server, tmp_path, "-m", "here", "--key", server.token, "hello")

    assert finished.stdout.strip() == "Good morning to you.", finished.stderr


def test_a_wrong_key_is_told(server: LiveServer, tmp_path: Path) -> None:
    finished = ask(server, tmp_path, "-m", "here", "--key", "wrong", "hello")

    assert finished.returncode != 0
    assert "token is not valid" in finished.stderr
