"""Which answers can be gone on with, and why another cannot."""

from __future__ import annotations

from appliance.core.errors import InvalidRequestError
from appliance.memory.document_scope import is_from_documents
from appliance.memory.turn_tree import TurnTree
from appliance.memory.turns import Turn


def answer_to_continue(turns: TurnTree, turn_id: str) -> Turn:
    """Return an answer that was cut off and that nothing follows.

    Raises:
        InvalidRequestError: it cannot be gone on with; says why, and what to do instead.
    """
    turn = turns.get(turn_id)
    if turn.role != "assistant" or turn.state == "forgotten":
        raise InvalidRequestError("only an answer can be continued")
    if turn.state == "partial":
        raise InvalidRequestError("this answer is still being written", hint="wait for it or stop it first")
    finish_reason = turn.answer.finish_reason if turn.answer else None
    if finish_reason == "tool_calls" or turn.tool_calls:
        raise InvalidRequestError("this answer ended with a tool call, so nothing of it is missing")
    if turn.state == "done" and finish_reason != "length":
        raise InvalidRequestError(
            "this answer is whole: the model ended it itself",
            hint="ask for more in a new message, or answer again",
        )
    if not turn.text:
        why = "the model was still thinking" if turn.reasoning else "nothing of it was written"
        raise InvalidRequestError(
            f"there is no text to continue: {why} when it was stopped", hint="answer the question again"
        )
    if turns.is_followed(turn_id):
        raise InvalidRequestError(
            "another turn follows this answer, so it can no longer be continued",
            hint="answer the question again on a branch of its own",
        )
    sent = turns.request_of(turn_id)
    if sent is not None and is_from_documents(sent):
        raise InvalidRequestError(
            "an answer from documents cannot be continued", hint="ask the documents again"
        )
    return turn
