"""`appliance token`, `user` and `audit` from the command line, and what a mistaken `serve` says."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import RunCli


def test_a_user_gets_a_token_that_can_be_revoked(run_cli: RunCli) -> None:
    user = json.loads(run_cli("user", "add", "ada", "--json").stdout)
    token = json.loads(run_cli("token", "create", "ada", "--days", "1", "--scope", "chat", "--json").stdout)
    revoked = json.loads(run_cli("token", "revoke", token["id"], "--json").stdout)
    listed = json.loads(run_cli("token", "list", "--user", "ada", "--json").stdout)
    users = {each["name"] for each in json.loads(run_cli("user", "list", "--json").stdout)}
    removed = json.loads(run_cli("user", "remove", "ada", "--forget", "--yes", "--json").stdout)

    assert user["role"] == "member"
    assert token["token"].startswith("apl_")
    assert (token["scopes"], revoked) == (["chat"], {"revoked": token["id"]})
    assert listed[0]["revoked_at_s"] is not None
    assert users == {"local", "ada"}
    assert removed["removed"] == "ada"
    assert removed["forgotten"]["is_clean"]


def test_the_token_of_the_machine_stays_the_same(run_cli: RunCli) -> None:
    first, second = run_cli("token").stdout, json.loads(run_cli("token", "--json").stdout)["token"]

    assert first.strip() == second


def test_the_audit_log_is_exported_and_verified_against_the_export(run_cli: RunCli, tmp_path: Path) -> None:
    run_cli("user", "add", "ada")
    kept = tmp_path / "audit.jsonl"
    run_cli("audit", "export", "-o", str(kept))
    run_cli("user", "add", "bob")
    intact = run_cli("audit", "verify", "--checkpoint", str(kept), "--json")
    forged = tmp_path / "forged.jsonl"
    forged.write_text(json.dumps({"checkpoint": {"sequence": 1, "digest": "0" * 64}}), encoding="utf-8")
    broken = run_cli("audit", "verify", "--checkpoint", str(forged))

    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["action"] == "user.added"
    assert lines[-1]["checkpoint"]["sequence"] == 1
    assert json.loads(intact.stdout)["entries"] == 2
    assert (intact.returncode, broken.returncode) == (0, 1)
    assert "NOT intact" in broken.stdout


def test_mistakes_are_told_with_a_way_out(run_cli: RunCli) -> None:
    wide = run_cli("serve", "--host", "0.0.0.0")  # noqa: S104  it is refused
    half = run_cli("serve", "--tls-cert", "nothing.pem")
    nobody = run_cli("token", "create", "nobody")
    model = run_cli("serve", "--port", "0", "-m", "no-such-model")

    assert (wide.returncode, half.returncode) == (2, 2)
    assert "--tls-cert" in wide.stderr
    assert "appliance user list" in nobody.stderr
    assert "no-such-model" in model.stderr
    assert {nobody.returncode, model.returncode} == {1}


def test_forgetting_is_audited_without_what_was_forgotten(run_cli: RunCli) -> None:
    forgotten = run_cli("forget", "--subject", "quagga homework", "--yes")
    shown = run_cli("audit", "--json")

    (entry,) = json.loads(shown.stdout)
    assert forgotten.returncode == 0, forgotten.stderr
    assert (entry["action"], entry["subject"]) == ("forgotten.subject", "local")
    assert entry["details"] == {"is_clean": True}
    assert "quagga" not in shown.stdout
