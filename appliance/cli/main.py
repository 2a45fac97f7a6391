"""The command group: finds commands late, and turns every outcome into an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage or setting, 130 interrupted with Ctrl+C,
141 the reader of the output went away (as a shell reports SIGPIPE).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance import __version__
from appliance.cli.exit_codes import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
)
from appliance.cli.invocation import Invocation
from appliance.core.errors import ApplianceError, ConfigError
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where a command lives: the attribute `<name>_command` of a module that is imported when it runs."""

    section: str
    module: str
    summary: str


COMMANDS: dict[str, CommandEntry] = {
    "ask": CommandEntry("Talk", "appliance.cli.ask", "Answer one question and leave."),
    "chat": CommandEntry("Talk", "appliance.cli.chat", "Talk with a model, line by line."),
    "schema": CommandEntry("Talk", "appliance.cli.schema", "Say what is enforced of a schema."),
    "chats": CommandEntry("Memory", "appliance.cli.chats", "List, search, export and import conversations."),
    "facts": CommandEntry("Memory", "appliance.cli.facts", "Show and change what is remembered of you."),
    "forget": CommandEntry("Memory", "appliance.cli.forget", "Remove something for good, with a receipt."),
    "pull": CommandEntry("Models", "appliance.cli.models", "Fetch a model and check it."),
    "list": CommandEntry("Models", "appliance.cli.models", "List models, fetched and known."),
    "show": CommandEntry("Models", "appliance.cli.models", "Show a model and the memory it needs."),
    "rm": CommandEntry("Models", "appliance.cli.models", "Remove a model from the store."),
    "import": CommandEntry("Models", "appliance.cli.models", "Take a GGUF file into the store."),
    "route": CommandEntry("Models", "appliance.cli.route", "Show who would answer, and why not others."),
    "verify": CommandEntry("Models", "appliance.cli.models", "Hash stored models again."),
    "add": CommandEntry("Documents", "appliance.cli.documents", "Add files and folders to a collection."),
    "docs": CommandEntry("Documents", "appliance.cli.documents", "List documents and collections."),
    "search": CommandEntry("Documents", "appliance.cli.documents", "Find passages by words and meaning."),
    "context": CommandEntry("Documents", "appliance.cli.context", "Show what a prompt holds, to the token."),
    "extract": CommandEntry(
        "Documents", "appliance.cli.extract", "Take a row of fields out of each document."
    ),
    "remove": CommandEntry("Documents", "appliance.cli.documents", "Remove documents for good."),
    "reindex": CommandEntry("Documents", "appliance.cli.documents", "Build the search index anew."),
    "trace": CommandEntry("Machine", "appliance.cli.trace", "Show where the time of a request went."),
    "serve": CommandEntry("Server", "appliance.cli.serve", "Serve OpenAI's API and documents over HTTP."),
    "token": CommandEntry("Server", "appliance.cli.token", "Show, make and revoke tokens."),
    "user": CommandEntry("Server", "appliance.cli.user", "Add, list and remove users."),
    "audit": CommandEntry("Server", "appliance.cli.audit", "Read, verify and export the audit log."),
    "ps": CommandEntry("Machine", "appliance.cli.ps", "List the models that are loaded now."),
    "doctor": CommandEntry("Machine", "appliance.cli.doctor", "Check this machine and installation."),
    "bench": CommandEntry("Machine", "appliance.cli.bench", "Measure speed and quality, and compare runs."),
    "config": CommandEntry("Machine", "appliance.cli.config", "List every setting and its source."),
}


class LateGroup(click.Group):
    """A group that imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            rows = [(name, entry.summary) for name, entry in COMMANDS.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)


def _parse_setting_flags(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    values: tuple[str, ...],
) -> dict[str, str]:
    flags: dict[str, str] = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        flags[name.strip()] = text
    return flags


@click.group(
    cls=LateGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="With no command in a terminal, the terminal interface opens.",
)
@click.option("--set", "flags", multiple=True, metavar="NAME=VALUE", callback=_parse_setting_flags,
              help="Set any setting for this run; `appliance config` lists them.")  # fmt: skip
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Read this TOML file.")
@click.option("--connect", metavar="URL", default="",
              help="Use a running `appliance serve`; APPLIANCE_TOKEN holds its token.")  # fmt: skip
@click.option("--debug", "is_debug", is_flag=True, help="Show the traceback of a failure.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def appliance_command(
    ctx: click.Context, *, flags: dict[str, str], config_file: Path | None, connect: str, is_debug: bool
) -> object:
    """Open-weight models on your own machine, and answers you can check."""
    ctx.obj = Invocation(flags=flags, config_file=config_file, is_debug=is_debug)
    if ctx.invoked_subcommand is None:
        return _open_default_screen(ctx, connect)
    if connect:
        raise click.UsageError("--connect goes with the terminal interface, without a command")
    return EXIT_OK


def _open_default_screen(ctx: click.Context, connect: str) -> object:
    if sys.stdin.isatty() and sys.stdout.isatty():
        if os.environ.get("TERM", "dumb") == "dumb" or not sys.stderr.isatty():
            from appliance.cli.chat import chat_command

            return ctx.invoke(chat_command)
        invocation = ctx.obj
        assert isinstance(invocation, Invocation)
        return _open_interface(invocation.settings(), connect)
    click.echo("In a terminal this opens a chat with the model; standard input or output is not one here.")
    click.echo('To ask once:           appliance ask "why is the sky blue?"')
    click.echo('With a text piped in:  cat report.txt | appliance ask "summarise this"')
    click.echo("Every command:         appliance --help")
    return EXIT_OK


def _open_interface(settings: Settings, connect: str) -> int:
    from tui.first_paint import draw_often, paint_frame, restore_terminal

    draw_often()
    # Painted before the rest is imported, which takes most of a second.
    paint_frame()
    try:
        from tui.run import open_ui
    except BaseException:
        restore_terminal()
        raise
    return open_ui(settings, connect=connect)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; report failures on standard error and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debug = "--debug" in given
    _replace_closed_streams()
    _write_utf8()
    code = _exit_code(
        lambda: appliance_command.main(given, prog_name="appliance", standalone_mode=False),
        is_debug=is_debug,
    )
    return _flushed(code, is_debug=is_debug)


_INTERRUPTED = "interrupted; what was finished stays, and the same command can be run again"


def _exit_code(command: Callable[[], object], *, is_debug: bool) -> int:
    try:
        outcome = command()
    except click.exceptions.Abort:
        click.echo(_INTERRUPTED, err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        return EXIT_INTERRUPTED
    except SystemExit as exc:
        # click exits by itself for a broken pipe, with 1, and for shell completion, with 0.
        return EXIT_BROKEN_PIPE if exc.code else EXIT_OK
    except ApplianceError as exc:
        _report(_place_of(exc) + exc.message, exc.hint, is_debug=is_debug)
        return EXIT_USAGE if isinstance(exc, ConfigError) else EXIT_FAILURE
    except OSError as exc:
        return _code_of_os_error(exc, is_debug=is_debug)
    except Exception as exc:  # noqa: BLE001  the process boundary
        _report(f"{type(exc).__name__}: {exc}", _BUG_HINT, is_debug=is_debug)
        return EXIT_FAILURE
    return outcome if isinstance(outcome, int) else EXIT_OK


def _place_of(error: ApplianceError) -> str:
    """Say where in a schema it is wrong, when that is known."""
    pointer, keyword = error.details.get("pointer", ""), error.details.get("keyword", "")
    if keyword in _OTHER_FORMS or not (pointer or keyword):
        return ""
    return f"at {pointer or '/'} ({keyword}): " if keyword else f"at {pointer}: "


_OTHER_FORMS = ("choices", "regex", "grammar")


_BUG_HINT = "this is a bug of the appliance; run again with `appliance --debug …` to see where"


def _report(message: str, hint: str, *, is_debug: bool) -> None:
    if is_debug:
        import traceback

        traceback.print_exc()
    click.echo(clean_for_terminal(f"error: {message}"), err=True)
    if hint:
        click.echo(clean_for_terminal(f"hint: {hint}"), err=True)


def _flushed(code: int, *, is_debug: bool) -> int:
    """Flush standard output here, where a reader that went away is no error worth a traceback."""
    try:
        sys.stdout.flush()
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or _code_of_os_error(exc, is_debug=is_debug)
    return code


def _code_of_os_error(error: OSError, *, is_debug: bool) -> int:
    if error.errno == errno.EPIPE:
        return EXIT_BROKEN_PIPE
    place = f"{error.filename}: " if error.filename else ""
    _report(f"{place}{error.strerror or error}", "", is_debug=is_debug)
    return EXIT_FAILURE


def _replace_closed_streams() -> None:
    """A shell can start a program with its streams closed (`>&-`); what is written there then goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 open to the end


def _write_utf8() -> None:
    """Write UTF-8 to files and pipes whatever the locale says; a terminal shows `?` for what it lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="surrogateescape")
