"""What a review agent returns, in and out.

It is read leniently, because agents bend every format: what had to be guessed is noted on the draft. Nothing is
dropped: an item that says too little is kept as unreadable, and an answer that was cut off cannot be read at all. An
answer that did not finish, or refuses, is no review; an empty list is doubted unless the answer says what was examined.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.engine.outcome import Status
from pipeline.findings import gate
from pipeline.findings.events import Coverage
from pipeline.findings.formats import doubts, strict_json
from pipeline.findings.formats.answer import Answer
from pipeline.findings.formats.items import (
    CONTRADICTION,
    UnreadableFile,
    collect_items,
    kept_keys,
    limit_nesting,
    unreadable_draft,
)
from pipeline.findings.formats.listed_items import listed_items
from pipeline.findings.formats.review_item import (
    FORMAT,
    KEYS,
    MAX_TITLE,
    first_text,
    is_item,
    read_item,
    sentences,
    shorten_title,
    text_of,
    with_known_keys,
    word_of,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    Draft,
    Evidence,
    Finding,
    Location,
    Report,
    ReportStatus,
    Said,
    Severity,
)
from pipeline.findings.rulings import MAX_WHY, STANDING
from pipeline.findings.scales import P_LEVEL, confidence_to_anchor, ruling_word, severity_of_text, severity_of_word
from pipeline.handlers.markers import read_markers

_LISTS = ("findings", "issues", "problems", "defects", "comments")  # an empty one says that nothing was found
_MORE_LISTS = frozenset(
    ("nits", "suggestions", "warnings", "errors", "bugs", "blockers", "concerns", "vulnerabilities")
)
_REVIEWED = ("reviewed", "files_reviewed", "reviewed_files", "examined", "files_examined", "files_checked")
_OTHER_LISTS = frozenset(("residual_risks", "testing_gaps", "patterns", "rulings", *_REVIEWED))
_REVIEW_KEYS = frozenset({*_LISTS, *_MORE_LISTS, *_OTHER_LISTS, "reviewer", "verdict", "argument", "status"})
_FORMAT_KEYS = frozenset({"findings", *_OTHER_LISTS, "reviewer", "verdict", "argument", "status"})
_MAX_WRAPPERS = 4  # levels of JSON around a review
_MAX_OTHER_NAMES = 2  # levels; an empty list of another name further inside may be about anything
_VERDICTS = ("SHIP", "SHIP-WITH-TICKETS", "BLOCK")
_HEAD = 64 * 1024  # characters that are searched for the reviewer's name: a review that is cut off has one, too
_REVIEWER = re.compile(r"""["']?\breviewer["']?\s*:\s*["']([^"'\\\n]{1,100})["']""")
_FILE_NAME = re.compile(r"[./]")
_RULED_NUMBER = re.compile(r"(?:finding\s*)?#?\s*(\d{1,9})(?:\.0)?", re.IGNORECASE)
_RULED_LINE = re.compile(rf"\W*{_RULED_NUMBER.pattern}\s*[:,.–—-]\s*(?P<rest>.+)", re.IGNORECASE | re.DOTALL)
_STILL = re.compile(
    r"\bnot\s+(?:\w+\s+)?(?:fixed|resolved|done|verified|checked)\b|\bunfixed\b|\bstill\b|\bremains\b|\bassum\w+|\btrust\b"
    r"|\bcould(?:\s+not|n['’]t)\b|\bwill\s+be\b|\bwas\s+never\b|\baccepted\b",
    re.IGNORECASE,
)
_NUMBERS = ("number", "finding", "id", "ref", "finding_number", "finding_id", "n")  # keys of a ruling, the best first
_RULINGS = ("ruling", "verdict", "status", "state", "result", "outcome", "decision", "resolution")
_REASONS = ("reason", "why", "because", "note", "notes", "explanation", "comment", "evidence")
_CHECKED = ("checked", "what", "for", "note", "notes", "summary", "result")  # keys of what was reviewed
_FILES = ("file", "path", "file_path", "filename", "name", "area")
NOT_EXAMINED = "it found nothing and does not say what it examined"


@dataclass(frozen=True, slots=True)
class _Found:
    """A review in an answer."""

    review: Mapping[str, Any]  # its keys as the format spells them; `findings` is what it lists
    note: str = ""  # on how it is written
    problem: str = ""  # why it is not the end of a review


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what a reviewer returned in a file; raises ValueError if no review is in it."""
    answer = strict_json.decode_text(data)
    report = read_answer(answer, reviewer=reviewer, root=root)
    if report is None:
        raise UnreadableFile("it has no JSON object with `findings`")
    markers = read_markers(answer)
    if report.drafts or not report.status.answered or markers.status is not Status.FAIL:
        return report
    item = unreadable_draft(markers.reason, f"{report.reviewer}#1", FORMAT, CONTRADICTION)
    return replace(report, status=ReportStatus.RETURNED, drafts=(item,))


def read_answer(answer: str, *, reviewer: str = "", root: str = "") -> Report | None:
    """Return all findings of an answer as one report; None if it has none. Raises ValueError if they cannot be read.

    The name of the reviewer who was asked wins over the one in the answer.
    """
    parsed = Answer(answer)
    named = _REVIEWER.search(parsed.text[:_HEAD])
    name = reviewer or (named[1] if named else FORMAT)
    faults = [value for value in parsed.values if value.fault]
    found = [one for value in parsed.values for one in _reviews(value.value, value.note)]
    if _is_empty_list(parsed.text):
        found = [_Found({"findings": []})]
    if faults and (not found or any(fault.cut_off for fault in faults)):
        raise UnreadableFile(faults[0].fault, name)
    if found:
        report = _report([*found, *(_Found({"findings": []}, problem=fault.fault) for fault in faults)], name, root)
        return _judge(report, found, parsed)
    inner = _inner_answer(parsed)
    if inner:
        wrapped = read_answer(inner, reviewer=name if named else reviewer, root=root)
        stopped = next(filter(None, (_unfinished(value.value) for value in parsed.values)), "")
        return _with_problem(wrapped, stopped) if wrapped is not None and stopped else wrapped
    return _report_of_list(parsed, name, root)


def _is_empty_list(text: str) -> bool:
    return text.strip().strip("`").removeprefix("json").strip() == "[]"


def _report(found: Sequence[_Found], name: str, root: str) -> Report:
    """Return one report of all reviews in an answer."""
    reviews = [one.review for one in found]
    items: list[tuple[str, Any]] = []  # each with the note on its review
    for one in found:
        listed = one.review["findings"]
        if not isinstance(listed, list):
            raise UnreadableFile("`findings` should be a list", name)
        items += [(one.note, limit_nesting(item, "it")) for item in listed]
    verdict, argument = _verdict(reviews)
    report = collect_items(
        name,
        FORMAT,
        items,
        lambda item, input_id: read_item(item[1], input_id, name, root, item[0]),
        residual_risks=sentences(review.get("residual_risks") for review in reviews),
        testing_gaps=sentences(review.get("testing_gaps") for review in reviews),
        verdict=verdict,
        argument=argument,
        patterns=tuple(_patterns(review.get("patterns") for review in reviews)),
        rulings=tuple(said for review in reviews for said in _rulings(review.get("rulings"))),
        reviewed=tuple(dict.fromkeys(_examined(reviews))),
    )
    problem = next((one.problem for one in found if one.problem), "")
    return _with_problem(report, problem) if problem else report


def _with_problem(report: Report, problem: str) -> Report:
    """Return the report of an answer that is not whole. Without any finding it is none."""
    status = ReportStatus.PARTIAL if report.drafts else ReportStatus.MALFORMED
    return replace(report, status=status, problem=report.problem or problem)


def _report_of_list(parsed: Answer, name: str, root: str) -> Report | None:
    """Return what an answer lists in YAML or in a table; None if it lists nothing."""
    items = listed_items(parsed.words)
    if not items:
        return None
    problem = "its findings are not in a JSON object with `findings`"
    return _report([_Found({"findings": items}, "it is not JSON", problem)], name, root)


def _judge(report: Report, found: Sequence[_Found], parsed: Answer) -> Report:
    """Return the report with what keeps an answer that speaks against nothing from being believed.

    Such an answer stands alone, and an empty list says what was examined.
    """
    if not report.status.answered or report.verdict == "BLOCK" or any(map(_is_grave, report.drafts)):
        return report
    words = doubts.words_beside(parsed.words)
    refused = doubts.refusal(words)
    reasons = [f"it says {refused}"] if refused else []
    if report.status is ReportStatus.EMPTY:
        reasons += _emptiness(report, parsed)
    beside = dict.fromkeys(filter(None, ("" if refused else words, *_keys_beside(found, parsed))))
    return replace(report, doubt="; ".join(reasons), beside=tuple(beside))


def _emptiness(report: Report, parsed: Answer) -> Iterator[str]:
    """Yield what an empty list does not agree with."""
    if not report.reviewed:
        yield NOT_EXAMINED
    if defect := doubts.named_blocker("\n".join(report.reviewed)):
        yield f"`reviewed` says {defect}, and no finding is listed"
    stated = read_markers(parsed.text).status
    if stated in (Status.FAIL, Status.PARTIAL_SUCCESS):
        yield f"its status is '{stated}', and no finding is listed"


def _keys_beside(found: Sequence[_Found], parsed: Answer) -> Iterator[str]:
    """Yield what the JSON of an answer says beside its list; a verdict in an unknown word may reject the change."""
    for one in found:
        verdict = text_of(one.review.get("verdict"))
        if verdict and not _verdict([one.review])[0]:
            yield f"`verdict`: {verdict}"
    for value in parsed.values:
        yield from doubts.keys_beside(value.value, _FORMAT_KEYS)


def _is_grave(draft: Draft) -> bool:
    """Return whether a finding by itself keeps the change from passing."""
    grave = draft.severity.rank <= Severity.HIGH.rank or bool(draft.unreadable or draft.severity_text)
    return grave and gate.decide(draft, agreed=False).is_kept


# --- the reviews in an answer ----------------------------------------------------------------------------------------


def _reviews(value: Any, note: str = "", problem: str = "", depth: int = 0) -> Iterator[_Found]:
    """Return the reviews in a JSON value: objects with a list of findings, in whatever wrapper, or findings alone."""
    if isinstance(value, list) and any(map(is_item, value)):
        yield _Found({"findings": value}, note, problem)
    elif isinstance(value, list) and depth < _MAX_WRAPPERS:
        for item in value:
            yield from _reviews(item, note, problem, depth + 1)
    elif isinstance(value, dict):
        yield from _reviews_of_object(value, note, problem, depth)


def _reviews_of_object(value: Mapping[str, Any], note: str, problem: str, depth: int) -> Iterator[_Found]:
    review = with_known_keys(value, _REVIEW_KEYS)
    names = _LISTS if depth < _MAX_OTHER_NAMES else _LISTS[:1]
    key = next((key for key in names if isinstance(_ungrouped(review.get(key)), list)), "findings")
    if key not in review and is_item(value):
        yield _Found({"findings": [value]}, note, problem)
        return
    problem = problem or doubts.unfinished(review)
    if key in review:
        yield _Found({**review, "findings": _ungrouped(review[key])}, note, problem)
    for name, item in review.items():
        if name == key:
            continue
        if _is_list_of_findings(name, item, names):
            yield _Found({"findings": _ungrouped({name: item})}, note, problem)
        elif name not in _OTHER_LISTS and depth < _MAX_WRAPPERS:
            yield from _reviews(item, note, problem, depth + 1)


def _is_list_of_findings(name: str, value: Any, names: Sequence[str]) -> bool:
    """Return whether a review lists findings under another name."""
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return False
    return name in _MORE_LISTS or name in names or severity_of_word(name) is not None


def _ungrouped(listed: Any) -> Any:
    """Return findings as a list, also if they are grouped by severity or file, or named. Anything else as it is."""
    if is_item(listed):
        return [listed]
    groups = listed.values() if isinstance(listed, dict) else ()
    if not groups or not all(isinstance(group, list) or is_item(group) for group in groups):
        return listed
    items: list[Any] = []
    for name, group in listed.items():
        members = group if isinstance(group, list) else [group]
        items += (_with_group(item, name) for item in members)
    return items


def _with_group(item: Any, name: str) -> Any:
    """Return an item with the severity or file that its group is named after, unless it has its own."""
    key = "severity" if severity_of_word(name) else "file"
    told = key == "severity" or _FILE_NAME.search(name)
    if not told or not isinstance(item, dict) or key in with_known_keys(item, KEYS):
        return item
    return {key: name, **item}


def _inner_answer(parsed: Answer) -> str:
    """Return the texts in the JSON of an answer that may be answers themselves, as a program wraps them."""
    return "\n".join(text for value in parsed.values for text in _texts(value.value))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str) and ("{" in value or "[" in value):
        yield value
    elif isinstance(value, dict | list) and depth < _MAX_WRAPPERS:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


def _unfinished(value: Any) -> str:
    return doubts.unfinished(value) if isinstance(value, dict) else ""


# --- the rest of a review --------------------------------------------------------------------------------------------


def _verdict(reviews: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the worst verdict that a reviewer gives on the whole change, and its argument."""
    worst = ("", "")
    for review in reviews:
        given = review.get("verdict")
        inner = given if isinstance(given, dict) else {}
        word = "-".join(re.split(r"[\s_-]+", (word_of(inner.get("verdict")) or word_of(given)).upper()))
        if word in _VERDICTS and (not worst[0] or _VERDICTS.index(word) > _VERDICTS.index(worst[0])):
            worst = word, text_of(review.get("argument")) or text_of(inner.get("argument"))
    return worst


def _patterns(given: Iterable[Any]) -> Iterator[Mapping[str, str]]:
    """Return what reviewers found worth repeating."""
    for values in given:
        for value in values if isinstance(values, list) else ():
            fields = value if isinstance(value, dict) else {"name": value}
            name = text_of(fields.get("name"))
            if name:
                told = {key: text_of(fields.get(key)) for key in ("location", "rationale", "destination")}
                yield told | {"name": name}


def _examined(reviews: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return what reviews say that they examined, without what they say they did not look at."""
    return (text for review in reviews for text in _reviewed(review) if not doubts.not_looked(text))


def _reviewed(review: Mapping[str, Any]) -> Iterator[str]:
    """Return what a review says it examined, as `path: what was checked`."""
    for key in _REVIEWED:
        given = review.get(key)
        if isinstance(given, dict):
            looked = ((file, checked) for file, checked in given.items() if checked not in (False, None))
            given = [{"file": file, "checked": checked} for file, checked in looked]
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, dict):
                yield ": ".join(
                    filter(None, (first_text(value, _FILES), " ".join(sentences(value.get(key) for key in _CHECKED))))
                )
            elif isinstance(value, str):
                yield value.strip()


def _rulings(given: Any) -> Iterator[Said]:
    """Return what a reviewer rules on findings by their numbers. A word that cannot be read is "not fixed"."""
    if isinstance(given, dict) and not given.keys() & {*_NUMBERS}:
        given = [_numbered(number, value) for number, value in given.items()]
    for value in given if isinstance(given, list) else [given]:
        said = _ruling(with_known_keys(value, ()) if isinstance(value, dict) else _numbered_line(value))
        if said:
            yield said


def _numbered(number: str, value: Any) -> dict[str, Any]:
    """Return the entry of an object whose keys are numbers as a ruling."""
    return {**value, "number": number} if isinstance(value, dict) else {"number": number, "ruling": value}


def _numbered_line(value: Any) -> dict[str, Any]:
    """Return a text such as `#3: not fixed` as a ruling."""
    line = _RULED_LINE.fullmatch(value) if isinstance(value, str) else None
    return {"number": line[1], "ruling": line["rest"]} if line else {}


def _ruling(item: Mapping[str, Any]) -> Said | None:
    """Return one ruling; None without a number."""
    numbers = (_RULED_NUMBER.fullmatch(text_of(item.get(name)).strip()) for name in _NUMBERS)
    number = next(filter(None, numbers), None)
    text = first_text(item, _RULINGS)
    if number is None and not text:
        return None
    if not text and isinstance(item.get("fixed"), bool):
        text = "fixed" if item["fixed"] else "not fixed"
    word = ruling_word(text)
    if word == "fixed" and _is_contradicted(item):
        word = "not_fixed"
    rated = text_of(item.get("severity")) or (text if word == "lowered" else "")
    severity = severity_of_text(rated) if rated and word in STANDING else None
    why = " ".join(first_text(item, _REASONS).split())[:MAX_WHY]
    if number is None:  # of what, nobody knows; that a defect is still there counts all the same
        return Said(0, word, why, severity) if word in STANDING else None
    return Said(int(number[1]), word, why, severity)


def _is_contradicted(item: Mapping[str, Any]) -> bool:
    """Return whether a ruling that says "fixed" says something else as well."""
    words = [text_of(item.get(name)) for name in _RULINGS]
    if any(word and ruling_word(word) != "fixed" for word in words):
        return True
    flags = (item.get(name) for name in ("fixed", "verified", "resolved"))
    return any(flag is False for flag in flags) or bool(_STILL.search(first_text(item, _REASONS)))


# --- out -------------------------------------------------------------------------------------------------------------


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Findings as a reviewer would return them, with the risks and gaps of the last pass."""
    coverage = ledger.last.coverage if ledger.last else Coverage()
    review = {
        "reviewer": "awf",
        "findings": [_item(finding) for finding in findings],
        "residual_risks": list(coverage.residual_risks),
        "testing_gaps": list(coverage.testing_gaps),
    }
    return strict_json.dumps(review).decode()


def _item(finding: Finding) -> dict[str, Any]:
    located = finding.location or next((item for item in finding.evidence if item.path), None)
    path, line = (located.path, located.start) if located else (finding.task or finding.scope, None)
    advisory = finding.autofix_class is AutofixClass.ADVISORY
    ambiguous = {Severity.LOW: advisory, Severity.INFO: not advisory}.get(finding.severity, False)
    item: dict[str, Any] = {
        "title": shorten_title(finding.title),
        "severity": P_LEVEL[finding.severity],
        "file": path,
        "line": line or 1,
        "why_it_matters": finding.impact,
        "autofix_class": str(finding.autofix_class),
        "owner": str(finding.owner),
        "requires_verification": finding.requires_verification,
        "suggested_fix": finding.fix,
        "confidence": confidence_to_anchor(finding.confidence),
        "evidence": [format_evidence(evidence) for evidence in finding.evidence] or [f"{path}:{line or 1}"],
        "pre_existing": finding.pre_existing,
    }
    optional = {
        "category": str(finding.category),
        "end_line": located.end if located else None,
        "symbol": located.symbol if located else "",
        "plain_title": finding.plain_title,
        "reproduction": finding.reproduction,
        "min_fix_scope": finding.min_fix_scope,
        "regression_tests": list(finding.regression_tests),
        "why_it_works": finding.why_it_works,
        "system_breaking": finding.system_breaking,
    }
    beyond = {
        "x_title": finding.title if len(finding.title) > MAX_TITLE else "",
        "x_severity": str(finding.severity) if ambiguous else "",
        "x_line_absent": line is None,
        "x_evidence_absent": not finding.evidence,
    }
    filled = {key: value for key, value in (optional | beyond).items() if value}
    return item | filled | dict(kept_keys(finding, FORMAT))


def format_evidence(evidence: Evidence) -> str:
    """Evidence as a text: its source's own, if there is one."""
    if evidence.raw:
        return evidence.raw
    location = str(Location(path=evidence.path, start=evidence.start, end=evidence.end))
    return " -- ".join(filter(None, (location, evidence.quote)))
