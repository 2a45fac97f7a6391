"""Words that turn a statement round: negations, pairs of opposites, and names of months, by language."""

from __future__ import annotations

from functools import cache

from appliance.retrieval.languages import stemmed


def by_language(lists: dict[str, str]) -> dict[str, frozenset[str]]:
    """Return lists of words as sets."""
    return {language: frozenset(words.split()) for language, words in lists.items()}


# Words that deny; then words that say nearly the same, so that "could not" may restate "was unable to".
_DENIALS = by_language(
    {
        "english": "not no never none neither nor cannot without nothing nobody nowhere",
        "german": "nicht kein keine keinen keinem keiner keines nie niemals ohne nichts niemand weder",
        # "Pas", "rien" and "personne" deny only with a "ne" and mean other things without one.
        "french": "ne n sans",
        "spanish": "no nunca jamás sin ningún ninguna ninguno ni nada nadie tampoco",
        "italian": "non mai senza nessun nessuno nessuna né niente nulla",
        "portuguese": "não nunca jamais sem nenhum nenhuma nem nada ninguém",
        "dutch": "niet geen nooit zonder noch niets niemand",
        "swedish": "inte ej icke aldrig utan ingen inget inga",
        "danish": "ikke ej aldrig uden ingen intet",
        "norwegian": "ikke ei aldri uten ingen intet",
        "russian": "не ни нет без никогда никто ничто нельзя",
    }
)
_NEAR_DENIALS = by_language(
    {
        "english": "hardly rarely seldom barely unable fail failed fails lack lacks lacked refuse refused few little "
        "except unlike impossible unlikely deny denied denies prevent prevented against instead",
        "german": "kaum selten unfähig außer unmöglich statt gegen fehlt fehlte verweigerte wenig wenige",
        "french": "rarement peu impossible sauf contre",
        "spanish": "apenas raramente imposible salvo excepto contra poco pocos",
    }
)
# "Not only" and "not until" deny nothing of what stands beside them.
_SOFTENERS = by_language(
    {
        "english": "only until just merely least necessarily",
        "german": "nur zuletzt bloß unbedingt",
        "french": "seulement",
        "spanish": "solo sólo solamente",
    }
)
# These deny what stands right after them, whatever stands before.
_FORWARD_DENIALS = by_language(
    {
        "english": "no without",
        "german": "kein keine keinen keinem keiner keines ohne",
        "french": "sans",
        "spanish": "sin ningún ninguna",
        "italian": "senza nessun nessuna",
        "portuguese": "sem nenhum nenhuma",
        "dutch": "geen zonder",
        "russian": "без",
    }
)
_OPPOSITES = {
    "english": "increase/decrease rise/fall rose/fell grow/shrink grew/shrank gain/lose more/less more/fewer "
    "most/least maximum/minimum high/low higher/lower highest/lowest large/small larger/smaller largest/smallest "
    "big/small "
    "long/short longer/shorter old/new old/young older/younger oldest/youngest oldest/newest early/late "
    "earlier/later earliest/latest first/last first/second first/third second/third before/after above/below "
    "over/under upper/lower north/south northern/southern east/west eastern/western left/right inside/outside "
    "win/lose won/lost begin/end start/end open/close accept/reject allow/forbid allow/prohibit permit/forbid "
    "legal/illegal possible/impossible positive/negative true/false hot/cold warm/cold male/female men/women "
    "best/worst better/worse strong/weak majority/minority million/billion thousand/million hundred/thousand "
    "billion/trillion "
    "mile/kilometre mile/kilometer kilometre/metre kilometer/meter day/week week/month month/year day/month day/year "
    "hour/minute second/minute gram/kilogram dollar/euro always/sometimes enable/disable include/exclude buy/sell "
    "import/export support/oppose success/failure succeed/fail public/private rich/poor",
    "german": "mehr/weniger vor/nach größte/kleinste größer/kleiner groß/klein erste/letzte erste/zweite "
    "zweite/dritte norden/süden nördlich/südlich osten/westen östlich/westlich million/milliarde "
    "tausend/million hundert/tausend hoch/niedrig höher/niedriger höchste/niedrigste alt/neu "
    "alt/jung älteste/jüngste älteste/neueste früh/spät früher/später "
    "lang/kurz länger/kürzer steigen/fallen stieg/fiel zunehmen/abnehmen gewinnen/verlieren gewann/verlor beginn/ende "
    "anfang/ende öffnen/schließen erlauben/verbieten erlaubt/verboten möglich/unmöglich positiv/negativ wahr/falsch "
    "heiß/kalt warm/kalt beste/schlechteste stark/schwach mehrheit/minderheit kilometer/meter meile/kilometer "
    "tag/woche woche/monat monat/jahr tag/monat tag/jahr stunde/minute minute/sekunde maximal/minimal "
    "über/unter oben/unten "
    "innerhalb/außerhalb links/rechts",
    "spanish": "más/menos antes/después norte/sur este/oeste millón/billón millones/billones mil/millones mayor/menor "
    "primera/última primero/último primer/último primer/segundo primera/segunda alto/bajo grande/pequeño nuevo/viejo "
    "aumentar/disminuir ganar/perder ganó/perdió mejor/peor máximo/mínimo abrir/cerrar día/semana día/mes mes/año",
    "french": "plus/moins avant/après nord/sud est/ouest million/milliard premier/dernier première/dernière "
    "premier/second grand/petit haut/bas nouveau/ancien augmenter/diminuer gagner/perdre meilleur/pire maximum/minimum "
    "jour/semaine "
    "jour/mois mois/an",
}  # fmt: skip
# Written without spaces, so these are looked for as they stand.
_DENSE_OPPOSITES = (
    "以上/以下 之前/之后 以前/以后 最大/最小 最高/最低 最多/最少 最早/最晚 增加/减少 上升/下降 提高/降低 北部/南部 "
    "东部/西部 以北/以南 以东/以西 第一/第二 第二/第三 第一/第三 百万/十亿 胜利/失败 赢得/输掉 开始/结束 允许/禁止 "
    "合法/非法 男性/女性 支持/反对 内部/外部 增长/下降 高于/低于 多于/少于 大于/小于"
)
_DENSE_DENIALS = ("不", "没", "未", "无", "非", "ない", "ません")
# Words that hold one of these characters and deny nothing.
_DENSE_NO_DENIALS = (
    "不同 不仅 不但 不只 不过 不断 不少 不久 不管 不论 不单 不光 非常 非洲 无论 无线 未来 非盟 不得不 无数 "
    "无疑 不列颠 差不多 南非 北非 东非 西非 中非 除非 莫非 沉没 没收 淹没 埋没 不错 不禁 不时 不一 不动产 "
    "无比 无穷 无机 非裔 是非 无烟 无产"
)
# What brings in the one who acts in a passive sentence.
_AGENT_WORDS = by_language(
    {
        "english": "by",
        "german": "von vom durch",
        "french": "par",
        "spanish": "por",
        "italian": "da dal dalla dai",
        "portuguese": "por pelo pela pelos",
        "dutch": "door",
    }
)
# "By far", "by then": nobody acts.
_NO_AGENTS = by_language(
    {"english": "far then now chance mistake means way least most", "german": "anfang hause nun dort hier"}
)
_DENSE_AGENTS = ("被", "由", "受", "によって")
_MONTHS = {
    "english": "january february march april may june july august september october november december",
    "german": "januar februar märz april mai juni juli august september oktober november dezember",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "dutch": "januari februari maart april mei juni juli augustus september oktober november december",
}
_MONTH_OF = {
    language: {name: number for number, name in enumerate(names.split(), start=1)}
    for language, names in _MONTHS.items()
}
_CAPITAL_MONTHS = ("english", "german")


def is_denial(word: str, language: str) -> bool:
    """Whether a lower-case word denies what it stands with."""
    return word.endswith(("n't", "n’t")) or word in _DENIALS.get(language, ())


def is_near_denial(word: str, language: str) -> bool:
    """Whether a lower-case word says nearly what a denial says."""
    return word in _NEAR_DENIALS.get(language, ())


def softens_denial(word: str, language: str) -> bool:
    """Whether a denial right before this word denies nothing."""
    return word in _SOFTENERS.get(language, ())


def denies_forward(word: str, language: str) -> bool:
    """Whether a lower-case word denies only what stands right after it."""
    return word in _FORWARD_DENIALS.get(language, ())


def dense_denials(text: str) -> list[int]:
    """Return where characters that deny stand in a text without spaces."""
    plain = text
    for harmless in _DENSE_NO_DENIALS.split():
        plain = plain.replace(harmless, "\0" * len(harmless))
    return sorted({place for denial in _DENSE_DENIALS for place in _places(denial, plain)})


def agent_words(language: str) -> frozenset[str]:
    """Return the words that bring in the one who acts in a passive sentence."""
    return _AGENT_WORDS.get(language, frozenset())


def is_no_agent(word: str, language: str) -> bool:
    """Whether a lower-case word after one of the agent words names nobody who acts."""
    return word in _NO_AGENTS.get(language, ())


def dense_agents() -> tuple[str, ...]:
    """Return what brings in the one who acts in a passive sentence of a script without spaces."""
    return _DENSE_AGENTS


def month_of(word: str, language: str) -> int:
    """Return the number of the month that a word names; 0 when it names none."""
    if language in _CAPITAL_MONTHS and not word[0].isupper():
        return 0
    return _MONTH_OF.get(language, {}).get(word.lower(), 0)


def opposites_of(stem: str, language: str) -> frozenset[str]:
    """Return the stems that say the opposite of a stem."""
    return _opposite_stems(language).get(stem, frozenset())


def dense_opposites() -> list[tuple[str, str]]:
    """Return pairs of opposites of languages without spaces, each in both orders."""
    pairs = [tuple(pair.split("/")) for pair in _DENSE_OPPOSITES.split()]
    return [order for first, second in pairs for order in ((first, second), (second, first))]


def _places(part: str, text: str) -> list[int]:
    return [place for place in range(len(text)) if text.startswith(part, place)]


@cache
def _opposite_stems(language: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in _OPPOSITES.get(language, "").split():
        first, second = (stemmed(word, language) for word in pair.split("/"))
        found.setdefault(first, set()).add(second)
        found.setdefault(second, set()).add(first)
    return {stem: frozenset(others) for stem, others in found.items()}
