"""Recognises questions about all of a collection: counting, listing, summing up. A few passages cannot answer them."""

from __future__ import annotations

import re

_COLLECTIVE = re.compile(
    r"""
      \bhow\ many\ (?:different\ |of\ (?:the|these|those|our|my)\ )?
          (?:documents?|files?|contracts?|reports?|records?|entries|rows|invoices?|papers?|pages?|letters?|emails?|
             customers?|employees|people|items?|times|clauses|sections|chapters)\b
    | \b(?:list|name|show|give|find|enumerate|count|extract|compare|summari[sz]e)\ (?:me\ )?(?:us\ )?
          (?:all|every|each|everything|both|the\ (?:total|number|count))\b
    | \bcount\ (?:of|how|up|the)\b
    | \b(?:total|overall)\ (?:number|amount|count|sum|of\ all)\b
    | \b(?:all|every|each|none|any)\ (?:of\ )?(?:the\ |these\ |those\ |our\ |my\ )?
          (?:documents?|files?|contracts?|reports?|records?|invoices?|papers?|letters?|emails?|pages?)\b
    | \b(?:across|throughout)\ (?:the|all|every|these|my|our)\b
    | \bwhich\ (?:of\ the\ |of\ these\ )?
          (?:documents|files|contracts|reports|records|invoices|papers|letters|emails)\b
    | \b(?:summari[sz]e|overview\ of|summary\ of)\ (?:the\ |this\ |these\ |my\ |our\ )?
          (?:whole|entire|collection|folder|documents?|files|contracts|reports|papers|book|everything)\b
    | \bmost\ (?:common|frequent|often)\b | \bhow\ often\b
    | \bwie\ viele\ (?:\w+\ )?(?:dokumente|dateien|verträge|berichte|rechnungen|einträge|seiten|personen|kunden)\b
    | \b(?:alle|sämtliche|jede[rsmn]?)\ (?:\w+\ )?(?:dokumente?|dateien|verträge?|berichte?|rechnung(?:en)?)\b
    | \b(?:liste|nenne|zähle|zeige|fasse)\ (?:mir\ )?(?:alle|alles|sämtliche|jede)\b | \bwie\ oft\b | \binsgesamt\b
    | 有多少(?:个|份|篇|条)?(?:文件|文档|合同|报告|记录)
    | 列出(?:所有|全部) | (?:所有|全部)的?(?:文件|文档|合同|报告) | 一共有
    """,
    re.IGNORECASE | re.VERBOSE,
)


def asks_for_all(question: str) -> bool:
    """Whether an answer needs every document rather than the best passages."""
    return _COLLECTIVE.search(question) is not None
