"""`appliance serve`: the HTTP server, with OpenAI's routes and its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.invocation import Invocation

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.server.options import ServeOptions

_DEFAULT_PORT = 8427


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=_DEFAULT_PORT, show_default=True,
              help="The port; 0 takes a free one.")  # fmt: skip
@click.option("-m", "--model", help="The model that answers when a request names none; loaded at once.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Private key of the certificate, PEM.")
@click.option("--insecure-no-tls", is_flag=True, help="Allow another address than loopback without TLS.")
@click.option("--allow-host", "hosts", multiple=True, help="A further name the server is reached by.")
@click.option(
    "--allow-origin", "origins", multiple=True, help="A web page that may call, such as https://a.example."
)
@click.option("--no-preload", is_flag=True, help="Load the model at the first request.")
@click.pass_obj
def serve_command(
    invocation: Invocation,
    *,
    host: str,
    port: int,
    model: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure_no_tls: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    no_preload: bool,
) -> None:
    """Serve OpenAI's API, documents and conversations over HTTP until Ctrl+C or SIGTERM.

    Every request needs a token, on this machine too: `appliance token` shows the one that was made at the
    first start. Another address than loopback needs TLS. Running answers get eight seconds when the server is
    told to end; a second signal ends it at once.

    \b
    appliance serve
    curl http://127.0.0.1:8427/v1/chat/completions \\
      -H "Authorization: Bearer $(appliance token)" -H "Content-Type: application/json" \\
      -d '{"messages": [{"role": "user", "content": "hello"}]}'
    """
    from appliance.server.options import ServeOptions

    settings = invocation.settings({"model": model})
    options = ServeOptions(
        host=host,
        port=port,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        may_lack_tls=insecure_no_tls,
        allowed_hosts=hosts,
        allowed_origins=origins,
    )
    asyncio.run(_serve(settings, options, is_preloading=not no_preload))


async def _serve(settings: Settings, options: ServeOptions, *, is_preloading: bool) -> None:
    from appliance.app import build_appliance
    from appliance.server.serving import serve
    from appliance.server.starting import opened_services

    async with build_appliance(settings) as appliance:
        with opened_services(appliance, options) as services:
            if is_preloading:
                await appliance.gateway.load(settings.model)
            await serve(services, _say_listening)


def _say_listening(url: str) -> None:
    click.echo(f"listening on {url}; `appliance token` shows the token; Ctrl+C ends it")
