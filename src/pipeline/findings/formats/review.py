"""What a review agent returns, in and out.

It is read leniently, because agents bend every format: what had to be guessed is noted on the draft. Nothing is
dropped: an item that says too little is kept as unreadable, and an answer that was cut off cannot be read at all. An
answer that did not finish, or refuses, is no review; an empty list is doubted unless the answer says what was examined.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.engine.outcome import Status
from pipeline.findings import gate
from pipeline.findings.events import Coverage
from pipeline.findings.formats import doubts, strict_json
from pipeline.findings.formats.answer import Answer
from pipeline.findings.formats.items import (
    UnreadableFile,
    collect_items,
    first_text,
    kept_keys,
    limit_nesting,
    malformed_report,
    text_of,
    unreadable_draft,
)
from pipeline.findings.formats.listed_items import listed_items
from pipeline.findings.formats.review_item import (
    FORMAT,
    KEYS,
    as_list,
    is_item,
    percent_of,
    read_item,
    sentences,
    with_known_keys,
    word_of,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Evidence, Finding, Location, Report, ReportStatus, Said
from pipeline.findings.rulings import MAX_WHY, STANDING
from pipeline.findings.scales import P_LEVEL, confidence_to_anchor, read_ruling, severity_of_text, severity_of_word
from pipeline.handlers.markers import read_markers
from pipeline.text import truncate_length

_LISTED = frozenset(("findings", "reviewed", "residual_risks", "testing_gaps", "patterns", "rulings"))
_TEXTS = frozenset(("reviewer", "status", "verdict", "argument"))
_KEYS = _LISTED | _TEXTS  # of the format
_LISTS = frozenset(
    {"issues", "problems", "defects", "comments", "nits", "suggestions", "warnings", "errors", "bugs", "blockers"}
    | {"concerns", "vulnerabilities"}
)  # other names for findings
_VERDICTS = ("BLOCK", "SHIP-WITH-TICKETS", "SHIP")  # the worst first
_MAX_TITLE = 100  # characters
_HEAD = 64 * 1024  # characters that are searched for the reviewer's name: a review that is cut off has one, too
_REVIEWER = re.compile(r"""["']?\breviewer["']?\s*:\s*["']([^"'\\\n]{1,100})["']""")
_FILE_NAME = re.compile(r"[./]")
_RULED_NUMBER = re.compile(r"(?:finding\s*)?#?\s*(\d{1,9})", re.IGNORECASE)
_STILL = re.compile(
    r"\bnot\s+(?:\w+\s+)?(?:fixed|resolved|done|verified|checked)\b|\bunfixed\b|\bstill\b|\bremains\b|\bassum\w+|\btrust\b"
    r"|\bcould(?:\s+not|n['’]t)\b|\bwill\s+be\b|\bwas\s+never\b|\baccepted\b",
    re.IGNORECASE,
)
_NUMBERS = ("number", "finding", "id")  # keys of a ruling, the best first
_RULINGS = ("ruling", "verdict", "status", "state", "result", "outcome", "decision", "resolution")
_REASONS = ("reason", "why", "because", "note", "notes", "explanation", "comment", "evidence")
_CONFIRMED = ("fixed", "verified", "resolved")  # flags of a ruling
_OF_RULING = frozenset(
    (*_NUMBERS, *_RULINGS, *_REASONS, *_CONFIRMED, "title", "file", "line", "severity", "reviewer", "confidence")
)
NOT_EXAMINED = "it found nothing and does not say what it examined"


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what a reviewer returned in a file; raises ValueError if no review is in it."""
    report = read_answer(strict_json.decode_text(data), reviewer=reviewer, root=root)
    if report is None:
        raise UnreadableFile("it has no JSON object with `findings`")
    return report


def read_answer(answer: str, *, reviewer: str = "", root: str = "") -> Report | None:
    """Return all findings of an answer as one report; None if it has none. Raises ValueError if they cannot be read.

    The name of the reviewer who was asked wins over the one in the answer.
    """
    parsed, contents = Answer(answer), _Contents()
    named = _REVIEWER.search(parsed.text[:_HEAD])
    name = reviewer or (named[1] if named else FORMAT)
    if parsed.cut_off:
        return malformed_report(name, FORMAT, parsed.cut_off)
    contents.read_members(("JSON", limit_nesting(found.value, "it")) for found in parsed.values)
    note = next(filter(None, (found.note for found in parsed.values)), "")
    if contents.is_review or parsed.fault:
        contents.problem = contents.problem or parsed.fault
        return _judge(_report(contents, name, root, note), contents, parsed)
    wrapped = "\n".join(text for found in parsed.values for text in _texts(found.value))
    if wrapped:
        report = read_answer(wrapped, reviewer=reviewer, root=root)
        stopped = next(filter(None, (doubts.unfinished(found.value) for found in parsed.values)), "")
        return _with_problem(report, stopped) if report else None
    contents.items = listed_items(parsed.words)
    if not contents.items:
        return None
    contents.problem = "its findings are not in a JSON object with `findings`"
    return _report(contents, name, root, "it is not JSON")


# --- the JSON of an answer -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Contents:
    """What the JSON of an answer says."""

    items: list[Any] = field(default_factory=list)
    reviews: list[Mapping[str, Any]] = field(default_factory=list)  # objects in which findings are listed
    beside: list[str] = field(default_factory=list)  # what they say beside that
    problem: str = ""  # why they are not the end of a review

    @property
    def is_review(self) -> bool:
        """Whether findings are listed, or an empty list of them."""
        return bool(self.items or self.reviews)

    def entries(self, key: str) -> list[Any]:
        """Return what all reviews have under a key."""
        return [entry for review in self.reviews for entry in as_list(review.get(key))]

    def read(self, value: Any, key: str = "") -> bool:
        """Note the findings in a JSON value, in whatever wrapper; return whether there are any.

        Findings are what looks like them wherever it stands, and all that is in a list with a name for findings.
        """
        if is_item(value):
            return self._read_findings([value], key)
        if isinstance(value, dict):
            return self._read_object(value)
        if not isinstance(value, list):
            return False
        is_named = key in _LISTS or severity_of_word(key) is not None
        if any(map(is_item, value)) or (is_named and value):
            return self._read_findings(value, key)
        return self.read_members((key, item) for item in value)

    def read_members(self, members: Iterable[tuple[str, Any]], *, listed: bool = False) -> bool:
        """Note the findings in several values, and, if there are any, what the others say beside them."""
        beside = []
        for key, value in members:
            if self.read(value, key):
                listed = True
            elif doubts.says_something(value):
                beside.append(f"`{key}`: {value}")
        if listed:
            self.beside += beside
        return listed

    def _read_object(self, value: Mapping[str, Any]) -> bool:
        review = with_known_keys(value, _KEYS)
        listed = "findings" in review and self._read_findings(review["findings"])
        listed = listed or _verdict_word(review) == "BLOCK"  # it may reject the change without a list
        others = [(key, member) for key, member in review.items() if not _is_of_format(key, member)]
        if not self.read_members(others, listed=listed):
            return False
        self.reviews.append(review)
        self.problem = self.problem or doubts.unfinished(review)
        return True

    def _read_findings(self, listed: Any, group: str = "") -> bool:
        """Note items, which may be grouped by severity or file, or named."""
        if isinstance(listed, list):
            for item in listed:
                self._add(item, group)
        elif is_item(listed):
            self._add(listed, group)
        elif isinstance(listed, dict) and listed:
            for name, members in listed.items():
                self._read_findings(members, name)
        else:
            self.problem = "`findings` should be a list"
        return True

    def _add(self, item: Any, group: str) -> None:
        """Note an item, and the findings in it, as under a heading."""
        self.items.append(_with_group(item, group))
        if isinstance(item, dict):
            self.read_members((key, value) for key, value in item.items() if isinstance(value, list | dict))


def _is_of_format(key: str, value: Any) -> bool:
    if key != "findings" and isinstance(value, list) and any(map(is_item, value)):
        return False  # a finding is one wherever it stands
    return key in _LISTED or (key in _TEXTS and isinstance(value, str))


def _with_group(item: Any, name: str) -> Any:
    """Return an item with the severity or file that its group is named after, as in `nits`, unless it has its own."""
    if not isinstance(item, dict):
        return item
    for word in (name, name.removesuffix("s")):
        if severity_of_word(word):
            return {"severity": word, **with_known_keys(item, KEYS)}
    if _FILE_NAME.search(name):
        return {"file": name, **with_known_keys(item, KEYS)}
    return item


def _texts(value: Any) -> list[str]:
    """Return the texts in a JSON value that may be answers themselves, as a program wraps them."""
    if isinstance(value, str):
        return [value] if "{" in value else []
    members = value.values() if isinstance(value, dict) else value
    return [text for member in members for text in _texts(member)] if isinstance(value, dict | list) else []


# --- the report of it ------------------------------------------------------------------------------------------------


def _report(contents: _Contents, name: str, root: str, note: str) -> Report:
    """Return the report of an answer, of which a note says how it is written."""
    verdict, argument = _verdict(contents.reviews)
    looked = (entry for entry in contents.entries("reviewed") if isinstance(entry, str))
    named = (entry for entry in contents.entries("patterns") if isinstance(entry, dict) and text_of(entry.get("name")))
    report = collect_items(
        name,
        FORMAT,
        contents.items,
        lambda item, input_id: read_item(item, input_id, name, root, note),
        residual_risks=sentences(contents.entries("residual_risks")),
        testing_gaps=sentences(contents.entries("testing_gaps")),
        verdict=verdict,
        argument=argument,
        patterns=tuple(map(_pattern, named)),
        rulings=tuple(filter(None, map(_ruling, contents.entries("rulings")))),
        reviewed=tuple(dict.fromkeys(entry.strip() for entry in looked if not doubts.not_looked(entry))),
    )
    return _with_problem(report, contents.problem)


def _with_problem(report: Report, problem: str) -> Report:
    """Return the report of an answer that is not whole. Without any finding it is none."""
    if not problem:
        return report
    status = ReportStatus.PARTIAL if report.drafts else ReportStatus.MALFORMED
    return replace(report, status=status, problem=report.problem or problem)


def _judge(report: Report, contents: _Contents, parsed: Answer) -> Report:
    """Return the report with what keeps an answer that speaks against nothing from being believed.

    Such an answer stands alone, and an empty list says what was examined.
    """
    if not report.status.answered or report.verdict == "BLOCK" or any(map(gate.is_grave, report.drafts)):
        return report
    words = doubts.words_beside(parsed.words)
    if refused := doubts.refusal(words):
        return replace(report, doubt=f"it says {refused}")
    beside = [words, *contents.beside]
    beside += (f"`verdict`: {review['verdict']}" for review in contents.reviews if _is_unknown_verdict(review))
    beside += (f"`reviewed`: {entry}" for entry in report.reviewed if doubts.named_blocker(entry))
    texts = (truncate_length(text, doubts.KEPT) for text in beside if text)
    report = replace(report, beside=tuple(dict.fromkeys(texts)))
    kept = any(gate.decide(draft, agreed=False).is_kept for draft in report.drafts)
    return report if kept else _judge_empty(report, parsed)


def _judge_empty(report: Report, parsed: Answer) -> Report:
    """Return the report of a reviewer that found nothing: it should say what it examined, and not that it failed."""
    stated = read_markers(parsed.text)
    if stated.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        problem = f"its status is '{stated.status}', and no finding is listed"
        item = unreadable_draft(stated.reason, f"{report.reviewer}#{len(report.drafts) + 1}", FORMAT, problem)
        return replace(report, status=ReportStatus.RETURNED, drafts=(*report.drafts, item))
    return report if report.reviewed else replace(report, doubt=NOT_EXAMINED)


def _verdict(reviews: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the worst verdict that a reviewer gives on the whole change, and its argument."""
    for verdict in _VERDICTS:
        for review in reviews:
            if _verdict_word(review) == verdict:
                return verdict, text_of(review.get("argument"))
    return "", ""


def _is_unknown_verdict(review: Mapping[str, Any]) -> bool:
    """Return whether a reviewer gives a verdict in a word that the format does not have: it may reject the change."""
    return _verdict_word(review) not in ("", *_VERDICTS)


def _verdict_word(review: Mapping[str, Any]) -> str:
    given = review.get("verdict")
    return "" if given is None else "-".join(re.split(r"[\s_-]+", str(given).strip().upper()))


def _pattern(given: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what a reviewer found worth repeating."""
    return {key: text_of(given.get(key)) for key in ("name", "location", "rationale", "destination")}


def _ruling(given: Any) -> Said | None:
    """Return what a reviewer rules on a finding by its number. A word that cannot be read is "not fixed".

    Without a number, nobody knows of what; that a defect is still there counts all the same.
    """
    if not isinstance(given, dict):
        return None
    item = with_known_keys(given, ())
    word, more = read_ruling(first_text(item, _RULINGS))
    if word == "fixed" and _is_contradicted(item):
        word = "not_fixed"
    number = _RULED_NUMBER.fullmatch(first_text(item, _NUMBERS).strip())
    if number is None and word not in STANDING:
        return None
    severity = severity_of_text(text_of(item.get("severity"))) if word in STANDING else None
    why = " ".join(first_text(item, _REASONS).split())[:MAX_WHY]
    return Said(int(number[1]) if number else 0, word, why, severity, vague=word == "fixed" and bool(more))


def _is_contradicted(item: Mapping[str, Any]) -> bool:
    """Return whether a ruling that says "fixed" says something else as well."""
    words = (text_of(item.get(name)) for name in _RULINGS)
    if any(read_ruling(word)[0] != "fixed" for word in words if word):
        return True
    if item.get("confidence") is not None and percent_of(word_of(item["confidence"])) < gate.LEAST_CRITICAL:
        return True
    beside = (value for key, value in item.items() if key not in _OF_RULING)
    flags = (item.get(name) for name in _CONFIRMED)
    unclear = any(flag is False for flag in flags) or any(map(doubts.says_something, beside))
    return unclear or bool(_STILL.search(first_text(item, _REASONS)))


# --- out -------------------------------------------------------------------------------------------------------------


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return findings as a reviewer would return them, with the risks and gaps of the last pass."""
    coverage = ledger.last.coverage if ledger.last else Coverage()
    review = {
        "reviewer": "awf",
        "findings": [_item(finding) for finding in findings],
        "residual_risks": list(coverage.residual_risks),
        "testing_gaps": list(coverage.testing_gaps),
    }
    return strict_json.dumps(review).decode()


def _item(finding: Finding) -> dict[str, Any]:
    elsewhere = next((item for item in finding.evidence if item.path), Evidence(path=finding.task or finding.scope))
    place = finding.location or elsewhere
    line = place.start or 1
    item: dict[str, Any] = {
        "title": truncate_length(finding.title, _MAX_TITLE),
        "severity": P_LEVEL[finding.severity],
        "file": place.path,
        "line": line,
        "why_it_matters": finding.impact,
        "autofix_class": str(finding.autofix_class),
        "owner": str(finding.owner),
        "requires_verification": finding.requires_verification,
        "suggested_fix": finding.fix,
        "confidence": confidence_to_anchor(finding.confidence),
        "evidence": [format_evidence(evidence) for evidence in finding.evidence] or [f"{place.path}:{line}"],
        "pre_existing": finding.pre_existing,
    }
    optional = {
        "category": str(finding.category),
        "end_line": place.end,
        "symbol": place.symbol,
        "plain_title": finding.plain_title,
        "reproduction": finding.reproduction,
        "min_fix_scope": finding.min_fix_scope,
        "regression_tests": list(finding.regression_tests),
        "why_it_works": finding.why_it_works,
        "system_breaking": finding.system_breaking,
    }
    filled = {key: value for key, value in optional.items() if value}
    return item | filled | dict(kept_keys(finding, FORMAT))


def format_evidence(evidence: Evidence) -> str:
    """Return evidence as a text: its source's own, if there is one."""
    if evidence.raw:
        return evidence.raw
    location = str(Location(path=evidence.path, start=evidence.start, end=evidence.end))
    return " -- ".join(filter(None, (location, evidence.quote)))
