"""The closed set of reasons why a document cannot be read, each with what a user can do about it."""

from __future__ import annotations

from typing import Literal, get_args

from appliance.core.errors import DocumentError

Reason = Literal[
    "not_found",
    "no_permission",
    "not_a_file",
    "io_error",
    "changed_while_reading",
    "empty",
    "too_large",
    "unsupported",
    "encrypted",
    "wrong_password",
    "rights_managed",
    "damaged",
    "archive_bomb",
    "forbidden_content",
    "too_deep",
    "too_much_text",
    "no_text",
    "needs_ocr",
    "deadline",
    "memory",
    "parser_crashed",
]

HINTS: dict[Reason, str] = {
    "not_found": "check the path; a link may point to nothing",
    "no_permission": "give the user who runs the appliance the right to read it",
    "not_a_file": "name a regular file or a folder; devices, pipes and sockets are never opened",
    "io_error": "check the disk or the network share, then add the file again",
    "changed_while_reading": "wait until the file is written, then add it again",
    "empty": "the file has no content; nothing to add",
    "too_large": "raise the file size limit, or split the file",
    "unsupported": "save it as PDF, DOCX, PPTX, XLSX, CSV, HTML, EPUB, EML, RTF, Markdown or plain text",
    "encrypted": "give the password, or save a copy without one",
    "wrong_password": "check the password; capital letters count",
    "rights_managed": "a publisher's key protects it; add a copy that is free of it",
    "damaged": "open it in the program that made it and save it again",
    "archive_bomb": "it unpacks to far more than a document holds; do not open it unless you trust its maker",
    "forbidden_content": "it declares XML entities, which no office program writes; save it again from one",
    "too_deep": "its parts are nested beyond any real document; save the inner parts on their own",
    "too_much_text": "raise the text limit, or split the file",
    "no_text": "there is nothing to read in it; if it shows text on screen, save it as PDF and add that",
    "needs_ocr": "its pages are pictures; install Tesseract (`apt install tesseract-ocr`) and add it again",
    "deadline": "raise the deadline, or split the file",
    "memory": "raise the memory limit of the parser, or split the file",
    "parser_crashed": "save it again from the program that made it; nothing but this file was hurt",
}


def document_error(reason: Reason, message: str) -> DocumentError:
    """Build the error of a reason with its hint."""
    return DocumentError(message, reason=reason, hint=HINTS[reason])


def as_reason(text: str) -> Reason:
    """Return a reason that came over the wire; anything unknown is a crash of the parser."""
    for reason in get_args(Reason):
        if reason == text:
            known: Reason = reason
            return known
    return "parser_crashed"


class RefusalError(Exception):
    """Raised by a reader, inside the confined process, to refuse a file for a reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
