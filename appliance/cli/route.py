"""`appliance route`: who would answer, in which order, and why every other candidate is rejected."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import click

from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_OK
from appliance.cli.invocation import Invocation
from appliance.core.capabilities import Capability, Placement
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.core.requests import GenerateRequest
    from appliance.core.routing import RouteDecision

_LATENCIES = ("interactive", "standard", "batch")
_COSTS = ("low", "medium", "high")
_STAYS: dict[Placement, str] = {
    "this_process": "data stays in this process",
    "this_machine": "data stays on this machine",
    "this_network": "data stays in this network",
    "elsewhere": "data may go to every server that is allowed",
}


class _Needs(TypedDict):
    needs: tuple[Capability, ...]
    context_tokens: int
    privacy: Placement | None
    latency: str | None
    cost: str | None
    stage: str
    difficulty: int | None
    text: str


@click.command("route")
@click.argument("name", required=False)
@click.option(
    "--needs",
    multiple=True,
    type=click.Choice(get_args(Capability)),
    help="A capability that is needed; may be repeated.",
)
@click.option("--context-tokens", type=int, default=0, help="Tokens that must fit.")
@click.option(
    "--privacy", type=click.Choice(get_args(Placement)), help="The farthest place the data may go to."
)
@click.option("--latency", type=click.Choice(_LATENCIES), help="The slowest tier that will do.")
@click.option("--cost", type=click.Choice(_COSTS), help="The dearest tier that will do.")
@click.option("--stage", default="", metavar="NAME", help="The step of a larger task, such as rewrite.")
@click.option("--difficulty", type=int, help="0 to 10; measured on --text by default.")
@click.option("--text", default="?", metavar="TEXT", help="The question; it is measured, and sent to nobody.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def route_command(invocation: Invocation, *, name: str | None, as_json: bool, **needs: Unpack[_Needs]) -> int:
    """Show the candidates of a route or model in the order they are asked, and why others are rejected.

    Routes are tables `[routes.NAME]` of the configuration file. No model is run. Without a name the
    routes are listed. The exit code is 1 when nobody would answer.
    """
    settings = invocation.settings()
    if name is None:
        click.echo(_listed(settings, as_json=as_json))
        return EXIT_OK
    decision = asyncio.run(_decided(settings, _request(name, needs)))
    click.echo(_as_json(decision) if as_json else clean_for_terminal(_as_text(decision)))
    return EXIT_OK if decision.candidates else EXIT_FAILURE


def _request(name: str, needs: _Needs) -> GenerateRequest:
    from appliance.core.messages import Conversation, UserMessage
    from appliance.core.requests import GenerateRequest
    from appliance.core.routing import RoutingNeeds

    routing = RoutingNeeds(
        capabilities=frozenset(needs["needs"]),
        context_tokens=needs["context_tokens"],
        privacy=needs["privacy"],
        latency=needs["latency"],  # type: ignore[arg-type]  # click checked the choice
        cost=needs["cost"],  # type: ignore[arg-type]  # click checked the choice
        stage=needs["stage"],
        difficulty=needs["difficulty"],
    )
    conversation = Conversation.of(UserMessage(text=needs["text"]))
    return GenerateRequest(conversation=conversation, model=name, routing=routing)


async def _decided(settings: Settings, request: GenerateRequest) -> RouteDecision:
    from appliance.app import build_appliance

    async with build_appliance(settings) as appliance:
        return await appliance.gateway.decide(request)


def _listed(settings: Settings, *, as_json: bool) -> str:
    routes = {
        route.name: [candidate.model for candidate in route.candidates] for route in settings.routes.values()
    }
    if as_json:
        return json.dumps({"routes": routes}, ensure_ascii=False, indent=2)
    if not routes:
        return "no routes; state them as [routes.NAME] with candidates = [...] in the configuration file"
    return clean_for_terminal("\n".join(f"{name}: {', '.join(models)}" for name, models in routes.items()))


def _as_json(decision: RouteDecision) -> str:
    return json.dumps(dataclasses.asdict(decision), ensure_ascii=False, indent=2)


def _as_text(decision: RouteDecision) -> str:
    what = f"route {decision.route}" if decision.route else f"model {decision.asked}"
    lines = [f"{what}: difficulty {decision.difficulty}, {_STAYS[decision.privacy]}"]
    models = [
        *(candidate.model for candidate in decision.candidates),
        *(found.model for found in decision.rejected),
    ]
    width = max(map(len, models))
    for number, candidate in enumerate(decision.candidates, start=1):
        place = f"{candidate.provider}, {candidate.placement}"
        lines.append(f"  {number}. {candidate.model:<{width}}  {place}")
    lines += [
        f"  -  {found.model:<{width}}  rejected ({found.reason}): {found.message}"
        for found in decision.rejected
    ]
    if not decision.candidates:
        lines.append("nobody would answer")
    return "\n".join(lines)
