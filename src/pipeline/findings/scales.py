"""What severities, states, rulings, confidences and categories are called in each format and language.

A coarse scale loses something: what it cannot express is written beside it, and never guessed when reading.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeVar

from pipeline.findings.model import AutofixClass, Category, Confidence, FindingState, Owner, Severity

_Key = TypeVar("_Key", Severity, FindingState)


def _column(table: Mapping[_Key, tuple[str, ...]], index: int) -> Mapping[_Key, str]:
    return {key: words[index] for key, words in table.items()}


# severity: review, verdict file, record, SARIF level, SARIF security-severity, rdjson
_SEVERITY_WORDS = {
    Severity.CRITICAL: ("P0", "Blocker", "critical", "error", "9.5", "ERROR"),
    Severity.HIGH: ("P1", "High", "high", "error", "8.0", "ERROR"),
    Severity.MEDIUM: ("P2", "Medium", "medium", "warning", "5.5", "WARNING"),
    Severity.LOW: ("P3", "Low", "low", "note", "2.0", "INFO"),
    Severity.INFO: ("P3", "Info", "low", "note", "0.1", "INFO"),
}
P_LEVEL, VERDICT_SEVERITY, RECORD_SEVERITY, SARIF_LEVEL, SECURITY_SEVERITY, RDJSON_SEVERITY = (
    _column(_SEVERITY_WORDS, index) for index in range(6)
)
# state: verdict file, record
_STATE_WORDS = {
    FindingState.OPEN: ("open", "open"),
    FindingState.REOPENED: ("reopened", "open"),
    FindingState.FIX_CLAIMED: ("fixed", "uncertain"),
    FindingState.VERIFIED_FIXED: ("verified", "fixed"),
    FindingState.FALSE_POSITIVE: ("wont_fix", "false-positive"),
    FindingState.WONT_FIX: ("wont_fix", "wont-fix"),
    FindingState.UNCERTAIN: ("open", "uncertain"),
}
VERDICT_STATUS, RECORD_STATUS = (_column(_STATE_WORDS, index) for index in range(2))


def _fold(text: str) -> str:
    """Return a text in lower case and without accents."""
    plain = unicodedata.normalize("NFKD", text.strip().lower())
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char)))


# What reviewers and tools write for a severity, without accents and in lower case: English, then German, French,
# Spanish, Portuguese, Italian, Dutch, Polish, Turkish and Russian words.
_SEVERITY_NAMES: Mapping[Severity, str] = {
    Severity.CRITICAL: """
        p0 s0 sev0 critical crit blocker blocking showstopper fatal catastrophic emergency red
        kritisch blockierend critique bloquant critico critica bloqueante kritiek krytyczny kritik
        критический критическая критично блокер
    """,
    Severity.HIGH: """
        p1 s1 sev1 high major severe serious important significant error orange
        hoch schwer schwerwiegend eleve elevee haut haute majeur majeure grave alto alta hoog wysoki yuksek
        высокий высокая серьезный
    """,
    Severity.MEDIUM: """
        p2 s2 sev2 medium med moderate normal warning warn amber yellow
        mittel moyen moyenne modere moderee medio media moderado gemiddeld sredni orta средний средняя
    """,
    Severity.LOW: """
        p3 s3 sev3 low minor trivial note nit nitpick cosmetic
        niedrig gering faible mineur mineure bas basse bajo baja baixo baixa basso bassa leve laag niski dusuk
        низкий низкая
    """,
    Severity.INFO: "s4 sev4 info information informational none green hinweis",
}
# Chinese, Japanese and Korean put no space between words; emoji stand for colours.
_SEVERITY_SIGNS: Mapping[str, Severity] = {
    **dict.fromkeys(("致命", "严重", "嚴重", "重大", "緊急", "紧急"), Severity.CRITICAL),
    **dict.fromkeys(("심각", "치명", "🔴", "🚨", "⛔"), Severity.CRITICAL),
    **dict.fromkeys(("最高", "최고"), Severity.CRITICAL),
    **dict.fromkeys(("高", "높음", "🟠"), Severity.HIGH),
    **dict.fromkeys(("中", "중간", "보통", "🟡"), Severity.MEDIUM),
    **dict.fromkeys(("低", "軽微", "轻微", "낮음", "🔵"), Severity.LOW),
    **dict.fromkeys(("🟢", "⚪"), Severity.INFO),
}
_SEVERITY_OF_WORD = {_fold(word): severity for severity, words in _SEVERITY_NAMES.items() for word in words.split()}
_SEVERITY_WORD = re.compile(r"sev(?:erity)?[ -]?\d\b|[^\W\d_]+\d*")
_BESIDE_SEVERITY = frozenset(
    [
        "severity",
        "priority",
        "level",
        "risk",
        "impact",
        "issue",
        "cvss",
        "score",
        "to",
        "and",
        "or",
        "sev",
        "prio",
        "of",
    ]
)
_SEVERITY_SIGN = re.compile("|".join(_SEVERITY_SIGNS))
_CVSS = re.compile(r"cvss[\s:]*(?:v?[234](?:[.][01])?(?![\w.]))?")  # with its version, which is no score
# A score where one is named, and elsewhere only a number that is no level of severity: 9.8, 8, or 3/10, not 2.
_ANY_SCORE = re.compile(r"(?<![\w.])(?:10(?:[.]0)?|\d(?:[.]\d)?)(?![\w.:]|/\D)")
_SCORE = re.compile(r"(?<![\w.])(?:10(?:[.]0)?|\d[.]\d|[789]|\d(?=\s*/\s*10\b))(?![\w.:]|/\D)")
_SCORES = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM), (0.1, Severity.LOW))

# What reviewers write for a ruling; every other word is "not_fixed".
_RULINGS: Mapping[str, tuple[str, ...]] = {
    "fixed": ("fixed", "resolved", "verified", "confirmed fixed", "verified fixed", "addressed", "no longer present"),
    "upheld": ("upheld", "uphold", "stands", "confirmed", "valid", "still valid"),
    "lowered": ("lowered", "lower", "downgraded", "downgrade"),
    "withdrawn": ("withdrawn", "withdraw", "retracted", "retract", "false positive", "not a bug", "not a defect"),
}
_RULING_OF_WORD = {word: ruling for ruling, words in _RULINGS.items() for word in words}
_RULING_START = re.compile(r"^(?:(?:is|was|it|its|it's|has|been|now|completely|fully)\s+)+")
_RULING_END = re.compile(r"[,;:.!(\n—–]|\s-|\b(?:because|since|as|by|in|with|at|after|now|to)\b")
_HEDGE = re.compile(
    r"\b(?:but|except|however|not|no(?! longer\b)|never|nothing|only|partial\w*|part|most\w*|probabl\w*|likely|should"
    r"|unclear|later|will|again|back|claim\w*|pending|todo|still|unless|until|if|yet|almost|nearly|supposed\w*|apparently|seem\w*"
    r"|may(?:be)?|might|perhaps|unverified|unchecked|untested|assum\w*|caveats?|exceptions?|as far as)\b|n['’]t\b|\?"
)

ANCHORS = (0, 25, 50, 75, 100)
_WORDS = {"high": 75, "medium": 50, "low": 25}
_FRACTIONS = {100: 1.0, 75: 0.75, 50: 0.6, 25: 0.5}
_BANDS = ((0.9, 100), (0.75, 75), (0.6, 50), (0.5, 25))

CATEGORY_LABEL: Mapping[Category, str] = {
    Category.BUG: "Bug",
    Category.SECURITY: "Security",
    Category.PERFORMANCE: "Performance",
    Category.CONCURRENCY: "Concurrency",
    Category.API_CONTRACT: "Design / API",
    Category.DATA_LOSS: "Data loss",
    Category.TEST_GAP: "Coverage",
    Category.DOCS_GAP: "Doc",
    Category.BUILD_RELEASE: "Build / release",
    Category.MAINTAINABILITY: "Maintainability / Style",
    Category.PRODUCT: "Product",
    Category.REQUIREMENT: "Requirement",
}
_BY_SOURCE: Mapping[str, Category] = {
    **dict.fromkeys(("correctness", "adversarial", "reliability"), Category.BUG),
    "security": Category.SECURITY,
    "performance": Category.PERFORMANCE,
    **dict.fromkeys(("api-contract", "api-patterns"), Category.API_CONTRACT),
    "data-migrations": Category.DATA_LOSS,
    **dict.fromkeys(("testing", "qa"), Category.TEST_GAP),
    "docs": Category.DOCS_GAP,
    **dict.fromkeys(("maintainability", "project-standards", "simplify"), Category.MAINTAINABILITY),
    **dict.fromkeys(("ci", "deployment"), Category.BUILD_RELEASE),
    "pm": Category.PRODUCT,
    "plan": Category.REQUIREMENT,
    **dict.fromkeys(("races", "julik-races"), Category.CONCURRENCY),
}
_BY_NAME: Mapping[str, Category] = {
    **_BY_SOURCE,
    **{"-".join(label.lower().replace("/", " ").split()): category for category, label in CATEGORY_LABEL.items()},
    **{str(category): category for category in Category},
}
_BY_TAG: Mapping[str, Category] = {
    **_BY_NAME,
    **dict.fromkeys(("cwe", "vulnerability"), Category.SECURITY),
    "documentation": Category.DOCS_GAP,
    **dict.fromkeys(("readability", "style"), Category.MAINTAINABILITY),
}
_SECURITY_TOOLS = frozenset(
    ("bandit", "brakeman", "checkov", "gitleaks", "gosec", "njsscan", "snyk", "tfsec", "trivy", "trufflehog")
)
_BY_PREFIX: Mapping[str, Category] = {
    "S": Category.SECURITY,
    **dict.fromkeys(("F", "B", "PLE", "E9"), Category.BUG),
    **dict.fromkeys(("D", "DOC"), Category.DOCS_GAP),
    "PERF": Category.PERFORMANCE,
    "ASYNC": Category.CONCURRENCY,
}  # of the rules of ruff and flake8
_RULE_PREFIX = re.compile(r"E9|[A-Z]+(?=\d)")
_TAG_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


def severity_of_word(word: str) -> Severity | None:
    """Return the severity that a reviewer or tool means by a word; None for any other word."""
    folded = _fold(word)
    return _SEVERITY_OF_WORD.get(folded) or _SEVERITY_SIGNS.get(folded)


def severity_of_text(text: str) -> Severity | None:
    """Return the worst severity that a text names, as a word of any language or a CVSS score; None if it names none.

    `P1/P2` is P1, `🟠 Hoch` and `CVSS 8.1` are high. A number that may be a level, such as 2, is none: on one scale it
    is almost the best, on another almost the worst. Beside other words, as in "not minor", only a grave one counts.
    """
    folded = _fold(text)
    words = [word.replace("erity", "").replace(" ", "").replace("-", "") for word in _SEVERITY_WORD.findall(folded)]
    found = [_SEVERITY_OF_WORD[word] for word in words if word in _SEVERITY_OF_WORD]
    if any(word not in _SEVERITY_OF_WORD and word not in _BESIDE_SEVERITY for word in words):
        found = [severity for severity in found if severity.rank <= Severity.HIGH.rank]
    found += (_SEVERITY_SIGNS[sign] for sign in _SEVERITY_SIGN.findall(folded))
    named = _CVSS.search(folded)
    score = _ANY_SCORE.search(folded, named.end()) if named else _SCORE.search(folded)
    if score:
        found.append(severity_of_score(float(score[0])))
    return min(found, key=lambda one: one.rank, default=None)


def severity_of_score(score: float) -> Severity:
    """Return the severity of a CVSS score from 0 to 10."""
    return next((severity for least, severity in _SCORES if score >= least), Severity.INFO)


def read_ruling(text: str) -> tuple[str, str]:
    """Return the ruling that a reviewer means by its words, and what it says after its word.

    `Resolved: the guard is there` is fixed and `the guard is there`; `probably fixed`, `still present` and whatever
    cannot be read is not fixed.
    """
    words = " ".join(text.lower().replace("_", " ").replace("-", " ").strip(" *`'\"[]✅✔️☑").split())
    words = _RULING_START.sub("", words)
    head = _RULING_END.split(words, maxsplit=1)[0]
    return _RULING_OF_WORD.get(head.strip(), "not_fixed"), words[len(head) :].strip(" .!")


def is_hedged(words: str) -> bool:
    """Return whether what follows the word "fixed" takes some of it back: `but only for lists`, `later`, `?`."""
    return bool(_HEDGE.search(words.lower()))


def confidence_from_anchor(anchor: int) -> Confidence:
    """Return the confidence that a reviewer gave as 0, 25, 50, 75 or 100."""
    return Confidence(value=anchor, scale="anchor", native=anchor)


def confidence_from_word(word: str) -> Confidence:
    """Return the confidence given as high, medium or low."""
    return Confidence(value=_WORDS[word], scale="word", native=word)


def confidence_from_fraction(fraction: float) -> Confidence:
    """Return the confidence given as a number up to 1.00; below 0.50 it is none."""
    value = next((anchor for least, anchor in _BANDS if fraction >= least), 0)
    return Confidence(value=value, scale="fraction", native=fraction)


def confidence_to_anchor(confidence: Confidence) -> int:
    """Return the anchor at or below a confidence."""
    return ANCHORS[bisect_right(ANCHORS, confidence.value) - 1]


def confidence_to_word(confidence: Confidence) -> str:
    """Return a confidence as a word: its source's own, if it used one."""
    if confidence.scale == "word" and isinstance(confidence.native, str):
        return confidence.native
    return {100: "high", 75: "high", 50: "medium"}.get(confidence_to_anchor(confidence), "low")


def confidence_to_fraction(confidence: Confidence) -> float:
    """Return a confidence from 0.50 to 1.00: its source's own number, if it gave one."""
    if confidence.scale == "fraction" and isinstance(confidence.native, float):
        return confidence.native
    return _FRACTIONS.get(confidence_to_anchor(confidence), 0.5)


def category_of_name(name: str) -> Category | None:
    """Return the category that a reviewer names, by its slug, its label or the domain that it belongs to."""
    return _BY_NAME.get("-".join(name.lower().replace("_", " ").replace("/", " ").split()))


def default_category(source: str) -> Category:
    """Return the category of what a reviewer, domain or stage finds, if it does not say."""
    if category := category_of_name(source):
        return category
    words = set(re.split("[-_ ]", source.lower()))
    return next((category for word, category in _BY_SOURCE.items() if word in words), Category.BUG)


def category_of_rule(tool: str, rule: str = "", tags: tuple[str, ...] = ()) -> Category:
    """Return the category of what a tool finds: by the tags of the rule, then by the rule, then by the tool.

    It is part of a finding's identity, so the same rule of the same tool always has the same one.
    """
    words = (word for tag in tags for word in _TAG_WORD.findall(tag.lower()))
    tagged = next((_BY_TAG[word] for word in words if word in _BY_TAG), None)
    if tagged:
        return tagged
    if tool in ("ruff", "flake8"):
        prefix = _RULE_PREFIX.match(rule)  # what breaks the syntax has none
        return _BY_PREFIX.get(prefix[0], Category.MAINTAINABILITY) if prefix else Category.BUG
    return Category.SECURITY if tool in _SECURITY_TOOLS else default_category(tool)


def reviewer_name(tool: str) -> str:
    """Return a tool's name as a reviewer's: `Semgrep OSS` becomes semgrep-oss."""
    return "-".join(tool.lower().split())


def default_autofix(fix: str | None, severity: Severity) -> tuple[AutofixClass, Owner]:
    """Return class and owner for a source that gives none. A fix is never assumed to be safe.

    Nor is a person assumed to own a defect: that would keep fixers from it, and reviews from failing for it.
    """
    if severity is Severity.INFO:
        return AutofixClass.ADVISORY, Owner.HUMAN
    is_gated = fix and severity.rank >= Severity.MEDIUM.rank
    return AutofixClass.GATED_AUTO if is_gated else AutofixClass.MANUAL, Owner.DOWNSTREAM_RESOLVER
