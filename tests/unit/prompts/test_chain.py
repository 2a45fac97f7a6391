"""Steps run in order, code stands between the models' steps, and the first failure ends the chain by name."""

from collections.abc import Mapping

from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, InvalidRequestError
from appliance.core.messages import Conversation, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateSuccess
from appliance.gateway import Gateway
from appliance.prompts.chain import Chain, ChainFailure, ChainSuccess, CodeStep, PromptStep
from appliance.providers.script import Fail, Say, ScriptedModel, Step
from appliance.providers.scripted import ScriptedProvider


def gateway(steps: Mapping[str, Step]) -> Gateway:
    clock = VirtualClock()
    models = [ScriptedModel(name=name, turns=((step,),)) for name, step in steps.items()]
    return Gateway([ScriptedProvider(models, clock)], clock)


def asked(model: str, text: str) -> GenerateRequest:
    return GenerateRequest(conversation=Conversation.of(UserMessage(text=text)), model=model)


def text_of(success: GenerateSuccess) -> str:
    return success.message.text


def counted(text: str) -> int:
    words = len(text.split())
    if words > 3:
        raise InvalidRequestError(f"{words} words are too many")
    return words


CHAIN = (
    Chain.of(PromptStep(name="draft", request=lambda topic: asked("drafter", topic), read=text_of))
    .then(CodeStep(name="count", work=counted))
    .then(PromptStep(name="judge", request=lambda count: asked("judge", f"{count} words"), read=text_of))
)


async def test_each_step_gets_what_the_one_before_it_made() -> None:
    models = gateway({"drafter": Say(text="red blue"), "judge": Say(text="fine")})

    outcome = await CHAIN.run("colours", models.generate)

    assert isinstance(outcome, ChainSuccess)
    assert outcome.value == "fine"
    assert [record.name for record in outcome.steps] == ["draft", "count", "judge"]
    assert [record.usage.output_tokens for record in outcome.steps] == [2, 0, 1]
    assert [bool(record.request_id) for record in outcome.steps] == [True, False, True]


async def test_code_between_the_steps_can_end_the_chain_before_the_next_model() -> None:
    models = gateway({"drafter": Say(text="one two three four"), "judge": Say(text="never")})

    outcome = await CHAIN.run("colours", models.generate)

    assert isinstance(outcome, ChainFailure)
    assert (outcome.step, outcome.failure.message) == ("count", "4 words are too many")
    assert [record.name for record in outcome.steps] == ["draft"]


async def test_a_model_that_fails_ends_the_chain_with_its_failure_and_what_it_took() -> None:
    failure = Failure(kind="engine_crashed", message="gone")
    models = gateway({"drafter": Fail(failure=failure), "judge": Say(text="never")})

    outcome = await CHAIN.run("colours", models.generate)

    assert isinstance(outcome, ChainFailure)
    assert (outcome.step, outcome.failure) == ("draft", failure)
    assert [record.name for record in outcome.steps] == ["draft"]


async def test_a_chain_can_run_again_and_at_the_same_time() -> None:
    models = gateway({"drafter": Say(text="red"), "judge": Say(text="fine")})

    outcomes = [await CHAIN.run("a", models.generate), await CHAIN.run("b", models.generate)]

    assert [len(outcome.steps) for outcome in outcomes] == [3, 3]
