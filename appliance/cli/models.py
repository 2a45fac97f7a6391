"""`appliance pull | list | show | rm | import | verify`: the models on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import click

from appliance.catalog.cards import load_cards
from appliance.catalog.catalog import Catalog, LocalModel
from appliance.catalog.importing import ImportedModel, ImportMode, import_gguf
from appliance.catalog.manifest import Manifest
from appliance.catalog.names import CardName, parse_model_name
from appliance.catalog.scanning import FoundModel, scan
from appliance.catalog.store import ModelStore, human_bytes
from appliance.catalog.verifying import VerifiedFile, verify
from appliance.cli.invocation import Invocation
from appliance.cli.model_tables import list_rows, show_facts, show_text, table_text
from appliance.cli.remote_models import remote_rows, remote_text
from appliance.cli.transfer_bar import TransferBar
from appliance.config import Settings
from appliance.core.errors import ApplianceError, InvalidRequestError, ModelNotFoundError
from appliance.core.terminal_text import clean_for_terminal

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")


@click.command("pull")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@click.pass_obj
def pull_command(invocation: Invocation, *, names: tuple[str, ...], as_json: bool) -> None:
    """Fetch models and check them.

    NAME is a name of `appliance list`, or a repository of the Hugging Face hub with a quantisation:
    hf.co/user/repo:Q4_K_M. A broken fetch goes on where it stopped; only what is missing or bad is fetched.
    """
    settings = invocation.settings()
    catalog = open_catalog(settings)
    outcomes: list[dict[str, object]] = []
    for name in names:
        try:
            with TransferBar() as bar:
                pulled = catalog.pull(name, is_offline=settings.offline, report=bar)
        except KeyboardInterrupt:
            click.echo(
                "interrupted; what came from the hub and whole wheels are kept for the next try", err=True
            )
            raise
        model = pulled.model
        outcomes.append(
            {
                "id": model.id,
                "digest": model.digest,
                "path": str(model.path),
                "fetched_files": list(pulled.fetched_files),
                "kept_files": list(pulled.kept_files),
                "fetched_bytes": pulled.fetched_bytes,
                "is_trusted_on_first_use": model.is_trusted_on_first_use,
            }
        )
        if not as_json:
            _say_pulled(model, pulled.fetched_files, pulled.fetched_bytes)
    if as_json:
        click.echo(json.dumps(outcomes, indent=2))


def _say_pulled(model: LocalModel, fetched: tuple[str, ...], fetched_bytes: int) -> None:
    if fetched:
        click.echo(f"{model.id}: fetched {len(fetched)} file(s), {human_bytes(fetched_bytes)}")
    else:
        click.echo(f"{model.id}: complete, nothing to fetch")
    click.echo(f"sha256 {model.digest}")
    if model.is_trusted_on_first_use:
        click.echo("no published sha256 was there to compare with: this one is recorded and must not change")


@click.command("list")
@click.option("--stored", "only_stored", is_flag=True, help="Only models that are on this machine.")
@json_option
@click.pass_obj
def list_command(invocation: Invocation, *, only_stored: bool, as_json: bool) -> None:
    """List models: those on this machine, those that can be fetched, and those of configured servers."""
    settings = invocation.settings()
    catalog = open_catalog(settings)
    rows = [row for row in list_rows(catalog, settings) if row.is_on_disk or not only_stored]
    for path in catalog.store.damaged_manifests():
        click.echo(f"warning: {path} is damaged; `appliance pull {path.parent.name}:{path.stem}`", err=True)
    servers = [] if only_stored else remote_rows(settings)
    if as_json:
        values = [row.to_values() for row in rows] + [value for row in servers for value in row.to_values()]
        click.echo(json.dumps(values, indent=2))
        return
    click.echo(table_text(rows))
    if servers:
        click.echo(clean_for_terminal("\n" + remote_text(servers)))


@click.command("show")
@click.argument("name")
@click.option("--context", "context_tokens", type=click.IntRange(1, 1 << 24), metavar="N",
              help="Plan the memory for this many tokens of context.")  # fmt: skip
@click.option("--parallel", type=click.IntRange(1, 128), metavar="P", help="Requests answered at a time.")
@json_option
@click.pass_obj
def show_command(
    invocation: Invocation, *, name: str, context_tokens: int | None, parallel: int | None, as_json: bool
) -> None:
    """Show a model's card and the memory it needs.

    With --context, a model that does not fit is an error that names the largest context that does.
    """
    from appliance.catalog.memory_plan import require_fit

    settings = invocation.settings()
    facts = show_facts(open_catalog(settings), settings, name, context_tokens, parallel)
    click.echo(json.dumps(facts.to_values(), indent=2) if as_json else show_text(facts))
    if context_tokens is not None and facts.plan is not None:
        require_fit(facts.plan, facts.card.id)


@click.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@click.pass_obj
def rm_command(invocation: Invocation, *, names: tuple[str, ...], as_json: bool) -> None:
    """Remove models from the store, and the files no other model uses."""
    catalog = open_catalog(invocation.settings())
    outcomes: list[dict[str, object]] = []
    for name in names:
        removed = catalog.store.remove(_stored_name(catalog, name))
        kept = list(removed.kept_files)
        outcomes.append({"id": removed.id, "freed_bytes": removed.freed_bytes, "kept_files": kept})
        if not as_json:
            note = f"; still used or not ours: {', '.join(kept)}" if kept else ""
            click.echo(f"{removed.id}: removed, {human_bytes(removed.freed_bytes)} freed{note}")
    if as_json:
        click.echo(json.dumps(outcomes, indent=2))


@click.command("import")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("--as", "name", default="", metavar="NAME:TAG", help="The model's name in the store.")
@click.option("--copy", "mode", flag_value="copy", default="copy", help="Copy the file (default).")
@click.option("--link", "mode", flag_value="link", help="Make a hard link: no second copy, one file system.")
@click.option("--in-place", "mode", flag_value="in_place", help="Leave the file where it is.")
@click.option("--scan", "is_scan", is_flag=True, help="Find models of LM Studio, Ollama and Hugging Face.")
@click.option("--all", "is_all", is_flag=True, help="With --scan: import everything that was found.")
@json_option
@click.pass_obj
def import_command(
    invocation: Invocation,
    *,
    paths: tuple[Path, ...],
    name: str,
    mode: ImportMode,
    is_scan: bool,
    is_all: bool,
    as_json: bool,
) -> int:
    """Take GGUF files into the store, or find those that other programs keep."""
    if is_scan == bool(paths) or (is_all and not is_scan):
        raise click.UsageError("name the files to import, or say --scan (and --all to import what it finds)")
    if name and len(paths) != 1:
        raise click.UsageError("--as names one file")
    catalog = open_catalog(invocation.settings())
    if not is_scan:
        imported = [_import_one(catalog, path, name, mode) for path in paths]
        _say_imported(imported, as_json=as_json)
        return 0
    found = scan()
    if is_all:
        return _import_found(catalog, found, mode, as_json=as_json)
    _say_found(found, as_json=as_json)
    return 0


def _import_one(catalog: Catalog, path: Path, name: str, mode: ImportMode) -> ImportedModel:
    chosen = parse_model_name(str(path)) if str(path).startswith("file:") else None
    with TransferBar() as bar:
        where = chosen.path if chosen is not None and chosen.kind == "file" else path
        return import_gguf(catalog, where, name=name, mode=mode, report=bar)


def _import_found(catalog: Catalog, found: list[FoundModel], mode: ImportMode, *, as_json: bool) -> int:
    imported: list[ImportedModel] = []
    failures = 0
    for model in found:
        name = model.name if model.keeper == "ollama" else ""
        try:
            imported.append(_import_one(catalog, model.path, name, mode))
        except ApplianceError as exc:
            failures += 1
            click.echo(f"{model.path}: {exc.message}", err=True)
    _say_imported(imported, as_json=as_json)
    return 1 if failures else 0


def _say_imported(imported: list[ImportedModel], *, as_json: bool) -> None:
    if as_json:
        values = [
            {
                "id": model.id, "digest": model.digest, "size_bytes": model.size_bytes, "mode": model.mode,
                "was_there": model.was_there,
            }
            for model in imported
        ]  # fmt: skip
        click.echo(json.dumps(values, indent=2))
        return
    for model in imported:
        done = "was there already" if model.was_there else f"imported ({model.mode.replace('_', ' ')})"
        click.echo(f"{model.id}: {done}, {human_bytes(model.size_bytes)}")
        click.echo(f"sha256 {model.digest}")


def _say_found(found: list[FoundModel], *, as_json: bool) -> None:
    if as_json:
        values = [
            {
                "keeper": model.keeper, "name": model.name, "path": str(model.path),
                "size_bytes": model.size_bytes, "problem": model.problem,
                "quantisation": model.info.quantisation if model.info else "",
                "architecture": model.info.architecture if model.info else "",
            }
            for model in found
        ]  # fmt: skip
        click.echo(json.dumps(values, indent=2))
        return
    if not found:
        click.echo("no models of LM Studio, Ollama or the Hugging Face cache were found")
        return
    for model in found:
        what = model.problem or (model.info.quantisation if model.info else "")
        click.echo(f"{model.keeper:<12}  {human_bytes(model.size_bytes):>9}  {what:<8}  {model.name}")
        click.echo(f"{'':<12}  {model.path}")
    click.echo("import one by its path, or all with --scan --all (--link and --in-place take no room)")


@click.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@click.pass_obj
def verify_command(invocation: Invocation, *, names: tuple[str, ...], as_json: bool) -> int:
    """Hash stored models again; with no NAME, all of them. Exit code 1 when a file is bad."""
    catalog = open_catalog(invocation.settings())
    manifests = [_stored_manifest(catalog, name) for name in names] if names else catalog.store.manifests()
    damaged = [] if names else catalog.store.damaged_manifests()
    with TransferBar() as bar:
        outcomes = list(verify(catalog.store, manifests, bar))
    if as_json:
        click.echo(json.dumps([_verified_values(outcome) for outcome in outcomes], indent=2))
    else:
        _say_verified(outcomes)
    for path in damaged:
        click.echo(f"bad      {path}: the manifest is damaged", err=True)
        click.echo(f"         `appliance pull {path.parent.name}:{path.stem}` writes it again", err=True)
    is_good = not damaged and all(outcome.state == "good" for outcome in outcomes)
    return 0 if is_good else 1


def _verified_values(outcome: VerifiedFile) -> dict[str, object]:
    return {
        "model": outcome.model,
        "file": outcome.file,
        "path": str(outcome.path),
        "state": outcome.state,
        "expected_sha256": outcome.expected_sha256,
        "found_sha256": outcome.found_sha256,
        "hint": outcome.hint,
    }


def _say_verified(outcomes: list[VerifiedFile]) -> None:
    if not outcomes:
        click.echo("the store holds no models")
    for outcome in outcomes:
        click.echo(f"{outcome.state:<10}  {outcome.model}  {outcome.file}")
        if outcome.state != "good":
            click.echo(f"{'':<10}  {outcome.path}")
            click.echo(f"{'':<10}  {outcome.hint}")


def open_catalog(settings: Settings) -> Catalog:
    """Open the model store of the settings; a user's own cards lie in `cards/` of the data folder."""
    return Catalog(ModelStore(settings.models_dir), load_cards(settings.data_dir / "cards"))


def _stored_manifest(catalog: Catalog, text: str) -> Manifest:
    manifest = catalog.manifest(text)
    if manifest is None:
        catalog.card(text)
        raise ModelNotFoundError(
            f"{text} is not in the store", hint="`appliance list --stored` shows what is"
        )
    return manifest


def _stored_name(catalog: Catalog, text: str) -> CardName:
    """Return the name to remove; a damaged manifest can be removed by its full name."""
    name = parse_model_name(text)
    if name.kind == "file":
        raise InvalidRequestError(f"{text} is a file, not a model of the store", hint="delete it yourself")
    if name.kind == "card" and name.tag:
        return name
    stored = _stored_manifest(catalog, text).card.id.partition(":")
    return CardName(name=stored[0], tag=stored[2])
