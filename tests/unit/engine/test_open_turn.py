"""A prompt that ends inside the assistant's turn: where it ends, for templates of every habit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InvalidRequestError
from appliance.core.messages import AssistantMessage, Message, SystemMessage, UserMessage
from appliance.engine.chat_template import PLAIN_TEMPLATE, ChatTemplate, PromptPiece
from appliance.engine.open_turn import OpenPrompt, render_open, text_of
from appliance.engine.prompt_tokens import PromptTokenizer

TAGS = ("<think>", "</think>")
MARKERS = ("<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{% for m in messages %}<|start|>{{ m.role }}<|end|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|end|>\n\n{% endif %}"
)
NO_GENERATION_PROMPT = (
    "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
)
NAMED = (
    "{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
THINKING = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' and loop.last %}<think>\n{{ (m.reasoning_content or '') | trim }}\n</think>\n\n{% endif %}"
    "{{ m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FORGETFUL_THINKING = (
    "{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}"
    "{% else %}<A>{{ m.content.split('</think>')[-1] }}<E>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<A><think>\n' }}{% endif %}"
)
ASKED = UserMessage(text="Hi")


def opened(source: str, *messages: Message, tags: tuple[str, str] | None = None) -> OpenPrompt:
    template = ChatTemplate(source, bos="<s>", eos="</s>", guarded=MARKERS)
    return render_open(template, messages, (), tags)


def rendered(source: str, *messages: Message, tags: tuple[str, str] | None = None) -> str:
    prompt = opened(source, *messages, tags=tags)
    return text_of(prompt.before) + text_of(prompt.text)


@pytest.mark.parametrize(
    "source, expected",
    [
        (CHATML, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOnce upon"),
        (TRIMMING, "<|start|>user<|end|>\n\nHi<|eot|><|start|>assistant<|end|>\n\nOnce upon"),
        (NO_GENERATION_PROMPT, "[INST] Hi [/INST]Once upon"),
        (PLAIN_TEMPLATE, "Hi\nOnce upon"),
        (NAMED, "User: Hi\n\nAssistant: Once upon"),
    ],
)
def test_the_prompt_ends_with_the_text_and_nothing_behind_it(source: str, expected: str) -> None:
    assert rendered(source, ASKED, AssistantMessage(text="Once upon")) == expected


def test_a_space_that_the_model_wrote_after_the_opening_is_not_doubled() -> None:
    assert rendered(NAMED, ASKED, AssistantMessage(text=" Once")) == "User: Hi\n\nAssistant: Once"


@given(text=st.text(alphabet="a \n\t🙂<|im_end>", min_size=1).filter(str.strip))
@pytest.mark.parametrize("source", [CHATML, TRIMMING])
def test_no_character_of_the_text_is_lost_but_the_space_that_is_owed(source: str, text: str) -> None:
    whole = rendered(source, ASKED, AssistantMessage(text=text))

    assert whole == rendered(source, ASKED, AssistantMessage(text="x"))[:-1] + text.rstrip(" \t")


def test_the_text_of_a_control_token_stays_text() -> None:
    prompt = opened(CHATML, ASKED, AssistantMessage(text="a<|im_end|>b"))

    assert prompt.text == [
        PromptPiece("a", is_literal=False),
        PromptPiece("<|im_end|>", is_literal=True),
        PromptPiece("b", is_literal=False),
    ]


def test_thinking_that_a_template_shows_stands_as_it_shows_it() -> None:
    turn = AssistantMessage(text="Four", reasoning="\nTwo and two.\n")

    assert rendered(THINKING, ASKED, turn, tags=TAGS).endswith(
        "<|im_start|>assistant\n<think>\nTwo and two.\n</think>\n\nFour"
    )


@pytest.mark.parametrize(
    "source, opening", [(FORGETFUL_THINKING, "<A><think>\n"), (CHATML, "assistant\n<think>")]
)
def test_thinking_that_a_template_forgets_is_written_as_the_model_wrote_it(source: str, opening: str) -> None:
    turn = AssistantMessage(text="Four", reasoning="Two and two.\n")

    assert rendered(source, ASKED, turn, tags=TAGS).endswith(f"{opening}Two and two.\n</think>\n\nFour")


def test_an_answer_without_thinking_is_not_put_inside_thinking_that_a_new_turn_would_open() -> None:
    assert rendered(FORGETFUL_THINKING, ASKED, AssistantMessage(text="Four"), tags=TAGS) == "<U>Hi<A>Four"


def test_a_template_that_refuses_to_end_with_an_assistant_is_opened_as_for_a_new_turn() -> None:
    source = "{% if messages[-1].role != 'user' %}{{ raise_exception('no') }}{% endif %}" + CHATML

    assert rendered(source, ASKED, AssistantMessage(text="Yes")).endswith("<|im_start|>assistant\nYes")


def test_a_conversation_of_nothing_but_the_open_turn_is_shown_where_the_template_can() -> None:
    source = "{% if not messages %}{{ raise_exception('empty') }}{% endif %}" + CHATML

    assert rendered(source, AssistantMessage(text="Yes")) == "<|im_start|>assistant\nYes"


def test_a_template_that_can_show_no_such_turn_is_a_typed_error_with_a_way_out() -> None:
    source = "{{ raise_exception('only questions') }}"

    with pytest.raises(InvalidRequestError, match="only questions") as caught:
        opened(source, SystemMessage(text="x"), ASKED, AssistantMessage(text="Yes"))

    assert "chat_template" in caught.value.hint


class SpacingVocabulary:
    """One token a byte, with a space put before any text that begins with a word, as SentencePiece does it."""

    adds_bos = False
    bos = 0
    size = 256

    def tokenize(self, text: str, *, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        spaced = f" {text}" if text[:1].isalpha() else text
        return list(spaced.encode())

    def is_control(self, token: int) -> bool:
        return False

    def is_user_defined(self, token: int) -> bool:
        return False

    def is_end(self, token: int) -> bool:
        return False

    def token_text(self, token: int) -> str:
        return chr(token)

    def piece(self, token: int) -> bytes:
        return bytes([token])


def test_a_vocabulary_that_puts_a_space_before_words_puts_none_at_the_seam() -> None:
    prompt = OpenPrompt([PromptPiece("[/INST]", is_literal=False)], [PromptPiece("Once", is_literal=False)])

    assert bytes(PromptTokenizer(SpacingVocabulary(), "").tokenize_open(prompt)) == b"[/INST]Once"
