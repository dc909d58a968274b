"""What a review agent returns, in and out.

It is read leniently, because agents bend every format: what had to be guessed is noted on the finding. Nothing is
dropped: an item that says too little is kept as unreadable, and an answer that was cut off cannot be read at all.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.engine.outcome import Status
from pipeline.findings.answers import MAX_WHY, RULINGS
from pipeline.findings.events import Coverage
from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.answer import AnswerValue, find_values
from pipeline.findings.formats.items import (
    CONTRADICTION,
    ItemError,
    UnreadableFile,
    collect_items,
    kept_keys,
    limit_nesting,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Answer,
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    Finding,
    Location,
    Owner,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
)
from pipeline.findings.normalize import unreadable_item
from pipeline.findings.scales import (
    P_LEVEL,
    category_of_name,
    confidence_from_anchor,
    confidence_to_anchor,
    default_autofix,
    default_category,
    severity_of_word,
)
from pipeline.handlers.markers import read_markers

FORMAT = "review"
MAX_TITLE = 100  # characters
MAX_TITLE_WORDS = 10  # more are noted
_LISTS = ("findings", "issues", "problems", "defects", "comments")  # an empty one says that nothing was found
_MORE_LISTS = frozenset(
    ("nits", "suggestions", "warnings", "errors", "bugs", "blockers", "concerns", "vulnerabilities")
)
_OTHER_LISTS = frozenset(("residual_risks", "testing_gaps", "patterns", "rulings"))  # whatever their items look like
_MAX_WRAPPERS = 4  # levels of JSON around a review
_MAX_OTHER_NAMES = 2  # levels; an empty list of another name further inside may be about anything
_CONFIDENCE_WORDS = {"certain": 100, "very high": 100, "high": 75, "medium": 50, "moderate": 50, "low": 25, "none": 0}
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_VERDICTS = ("SHIP", "SHIP-WITH-TICKETS", "BLOCK")
_ACTIONS = ("apply", "defer", "skip", "acknowledge")
_SHORT_SCALE = 10  # confidence from 2 to this may be on any scale
_UNSTATED = 75  # the confidence of a finding whose reviewer gives none: it is not filtered for that
_MAX_PARTS = 32  # of a path of another machine, from its end
_NUMBER_LENGTH = 10  # of a finding's number
_HEAD = 64 * 1024  # characters that are searched for the reviewer's name: a review that is cut off has one, too
_REVIEWER = re.compile(r"""["']?\breviewer["']?\s*:\s*["']([^"'\\\n]{1,100})["']""")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OF_TEN = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(?:/|out of)\s*([1-9]\d{0,2})")
_SEVERITY_WORD = re.compile(r"[a-z]+\d*")
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s-]+")
_LINES = re.compile(r"[~≈]?[Ll]?(?:ines?\s*)?(\d{1,9})(?:\s*(?:-|–|—|:|,|to)\s*[Ll]?(\d{1,9}))?")
_PATH_AND_LINES = re.compile(
    r"(?P<path>.*?[^:\s,(#])(?::|#L|[\s,(]{1,3}lines?\s)(?P<start>\d{1,9})"
    r"(?:\s?(?:-|–|to)\s?L?(?P<end>\d{1,9}))?(?::\d{1,9})?\)?(?:\s\([^()]*\))?"
)
_LINK = re.compile(r"\[[^\]\n]{0,300}\]\(([^)\s]{1,500})\)")
_EVIDENCE = re.compile(
    r"`?(?P<path>(?=[^\s:`./]*[./])[^\s:`]+):(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?`?(?:\s+(?:--|—|–)\s+(?P<code>.*))?",
    re.DOTALL,
)


def read(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What a reviewer returned in a file; raises ValueError if no review is in it."""
    answer = strict_json.decode_text(data)
    report = read_answer(answer, reviewer=reviewer, root=root)
    if report is None:
        raise UnreadableFile("it has no JSON object with `findings`")
    markers = read_markers(answer)
    if report.inputs or markers.status is not Status.FAIL:
        return report
    item = unreadable_item(markers.reason, f"{report.reviewer}#1", CONTRADICTION)
    return replace(report, status=ReportStatus.RETURNED, unreadable=(item,))


def read_answer(answer: str, *, reviewer: str = "", root: str = "") -> ReviewerReport | None:
    """All findings of an answer as one report; None if it has none in JSON. Raises ValueError if they cannot be read.

    The name of the reviewer who was asked wins over the one in the answer.
    """
    whole = answer.strip().strip("`").removeprefix("json").strip()
    values = [AnswerValue([])] if whole == "[]" else list(find_values(answer))
    reviews = [(review, found.note) for found in values for review in _reviews(found.value)]
    named = _REVIEWER.search(answer[:_HEAD])
    name = reviewer or (named[1] if named else FORMAT)
    if whole == "[]":
        reviews = [({"findings": []}, "")]
    if faults := [found.fault for found in values if found.fault]:
        raise UnreadableFile(faults[0], name)
    if not reviews:
        inner = "\n".join(text for found in values for text in _texts(found.value))
        return read_answer(inner, reviewer=name if named else reviewer, root=root) if inner else None
    items: list[tuple[str, Any]] = []  # each with the note on its review
    for review, note in reviews:
        listed = review["findings"]
        if not isinstance(listed, list):
            raise UnreadableFile("`findings` should be a list", name)
        items += [(note, limit_nesting(item, "it")) for item in listed]
    verdict, argument = _verdict(review for review, _ in reviews)
    return collect_items(
        name,
        FORMAT,
        items,
        lambda item, input_id: read_item(item[1], input_id, name, root, item[0]),
        residual_risks=_sentences(review.get("residual_risks") for review, _ in reviews),
        testing_gaps=_sentences(review.get("testing_gaps") for review, _ in reviews),
        verdict=verdict,
        argument=argument,
        patterns=tuple(_patterns(review.get("patterns") for review, _ in reviews)),
        rulings=tuple(_rulings(review.get("rulings") for review, _ in reviews)),
    )


def _reviews(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The reviews in a JSON value: objects with a list of findings, such an object in another, or findings alone."""
    if isinstance(value, list) and any(map(_is_item, value)):
        yield {"findings": value}
    elif isinstance(value, list) and depth < _MAX_WRAPPERS:
        for item in value:
            yield from _reviews(item, depth + 1)
    elif isinstance(value, dict):
        review = _with_known_keys(value, _REVIEW_KEYS)
        names = _LISTS if depth < _MAX_OTHER_NAMES else _LISTS[:1]
        key = next((key for key in names if isinstance(_ungrouped(review.get(key)), list)), "findings")
        if key in review:
            yield {**review, "findings": _ungrouped(review[key])}
        elif _is_item(value):
            yield {"findings": [value]}
            return
        for name, item in review.items():
            listed = name != key and isinstance(item, list) and any(isinstance(one, dict) for one in item)
            if listed and (name in _MORE_LISTS or name in names or severity_of_word(name)):
                yield {"findings": _ungrouped({name: item})}
            elif name != key and name not in _OTHER_LISTS and depth < _MAX_WRAPPERS:
                yield from _reviews(item, depth + 1)


def _is_item(value: Any) -> bool:
    """Whether a value looks like one finding."""
    item = _with_known_keys(value, _OWN_KEYS) if isinstance(value, dict) else {}
    if "severity" in item:
        return bool(item.keys() & {"file", *_TITLES})
    return item.keys() >= {"title", "file", "line"}


def _ungrouped(listed: Any) -> Any:
    """A list of findings, also if they are grouped by severity or file, or have names. Anything else as it is."""
    if _is_item(listed):
        return [listed]
    groups = listed.values() if isinstance(listed, dict) else ()
    if not groups or not all(isinstance(group, list) or _is_item(group) for group in groups):
        return listed
    items: list[Any] = []
    for name, group in listed.items():
        given = "severity" if severity_of_word(name) else "file" if re.search(r"[./]", name) else ""
        for item in group if isinstance(group, list) else [group]:
            is_told = isinstance(item, dict) and given and given not in _with_known_keys(item, _OWN_KEYS)
            items.append({given: name, **item} if is_told else item)
    return items


def _with_known_keys(value: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The object with its keys as the format spells them: `Why it matters` and `whyItMatters` are `why_it_matters`."""
    keys = {key: key if key in known else _WORD_BOUNDARY.sub("_", key.strip()).lower() for key in value}
    return {(plain if plain in known and plain not in value else key): value[key] for key, plain in keys.items()}


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a JSON value that may hold JSON themselves: what an agent answered, as its program wraps it."""
    if isinstance(value, str) and ("{" in value or "[" in value):
        yield value
    elif isinstance(value, dict | list) and depth < _MAX_WRAPPERS:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


# --- one finding -----------------------------------------------------------------------------------------------------

_TITLES = ("title", "summary", "issue", "problem", "headline", "name", "message")
_IMPACTS = ("why_it_matters", "impact", "description", "details", "explanation", "reasoning", "rationale", "body")
_FIXES = ("suggested_fix", "fix", "suggestion", "remediation", "proposed_fix")
_PATHS = ("file", "path", "file_path", "filepath", "filename", "location")
_PLACES = ("locations", "files", "paths")  # only the first is the finding's; all are kept
_STARTS = ("line", "start_line", "startLine", "lines", "line_number", "lineRange", "line_range")
_ENDS = ("end_line", "endLine")
_OWN_KEYS = frozenset(
    {*_TITLES, *_IMPACTS, *_FIXES, *_PATHS, *_STARTS, *_ENDS, "severity", "confidence", "evidence", "autofix_class"}
    | {"owner", "requires_verification", "pre_existing", "category", "symbol", "reproduction", "min_fix_scope"}
    | {"regression_tests", "plain_title", "recommendation", "system_breaking", "why_it_works", "reviewer"}
    | {"x_title", "x_severity", "x_system_breaking", "x_line_absent", "x_evidence_absent"}
)
_REVIEW_KEYS = frozenset({*_LISTS, *_MORE_LISTS, *_OTHER_LISTS, "reviewer", "verdict", "argument"})


def read_item(value: Any, input_id: str, reviewer: str, root: str = "", note: str = "") -> RawFinding:
    """One item as a raw finding, with a note for everything that was not as the format asks.

    Raises ItemError for an item without a title, or with nothing else than a title.
    """
    if not isinstance(value, dict):
        raise ItemError("it should be an object")
    item, notes = _with_known_keys(value, _OWN_KEYS), [note] if note else []
    impact, title = _first(item, _IMPACTS), _first(item, _TITLES)
    if not title and impact:
        title = impact.strip().splitlines()[0]
        notes.append("it has no title; its text was taken")
    whole_title = _text(item.get("x_title"))
    title = whole_title if whole_title and shorten_title(whole_title) == title else title
    location = _location(item, root, notes)
    evidence = tuple(_evidence(item.get("evidence"), root))
    if not title:
        raise ItemError("`title` is missing")
    if not (location or impact or evidence):
        raise ItemError("it has neither a place nor a reason: `file` or `why_it_matters` is missing")
    if (words := len(title.split())) > MAX_TITLE_WORDS:
        notes.append(f"its title has {words} words; use at most {MAX_TITLE_WORDS}")

    action = _word(item.get("recommendation"))
    fix = _first(item, _FIXES) or ("" if action in _ACTIONS else _text(item.get("recommendation")))
    severity = _severity(item, notes)
    autofix_class, owner = default_autofix(fix, severity)
    autofix_class = _choice(item, "autofix_class", AutofixClass, autofix_class, notes)
    if severity is Severity.LOW and autofix_class is AutofixClass.ADVISORY and item.get("x_severity") != "low":
        severity = Severity.INFO  # what is only advice
    owner = _choice(item, "owner", Owner, owner, notes)
    extra = {key: kept for key, kept in item.items() if key not in _OWN_KEYS}
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=title,
        severity=severity,
        confidence=_confidence(item, notes),
        category=_category(item, reviewer, notes),
        impact=impact,
        fix=fix or None,
        plain_title=_text(item.get("plain_title")),
        reproduction=_text(item.get("reproduction")) or None,
        min_fix_scope=_text(item.get("min_fix_scope")) or None,
        regression_tests=_sentences([item.get("regression_tests")]),
        why_it_works=_text(item.get("why_it_works")),
        autofix_class=autofix_class,
        owner=owner,
        requires_verification=_flag(item, "requires_verification", notes),
        pre_existing=_flag(item, "pre_existing", notes),
        system_breaking=_flag(item, "system_breaking", notes) or _flag(item, "x_system_breaking", notes),
        locations=(location,) if location else (),
        evidence=() if item.get("x_evidence_absent") is True else evidence,
        action=action if action in _ACTIONS else _implied_action(autofix_class, owner, fix),
        notes=tuple(notes),
        ext={FORMAT: extra} if extra else {},
    )


def _text(value: Any) -> str:
    """A text or number as a text; nothing for what is blank or anything else."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return text if text.strip() else ""


def _word(value: Any) -> str:
    return _text(value).strip().lower()


def _first(item: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((text for name in names if (text := _text(item.get(name)))), "")


def _severity(item: Mapping[str, Any], notes: list[str]) -> Severity:
    word = _word(item.get("severity"))
    known = [severity for part in _SEVERITY_WORD.findall(word) if (severity := severity_of_word(part))]
    severity = severity_of_word(word) or min(known, key=lambda one: one.rank, default=None)
    if severity is None:
        notes.append(f"its severity {word!r} is unknown; high was assumed" if word else "no severity; high was assumed")
        return Severity.HIGH
    if word not in ("p0", "p1", "p2", "p3"):
        notes.append(f"its severity {word!r} was read as {P_LEVEL[severity]}")
    if severity is Severity.LOW and item.get("x_severity") == "info":
        return Severity.INFO
    return severity


def _confidence(item: Mapping[str, Any], notes: list[str]) -> Confidence:
    """The step at or below what a reviewer gave: a step, a word, a percentage or a fraction."""
    given = item.get("confidence")
    text = _word(given)
    share = _OF_TEN.fullmatch(text)
    number = float(text.removesuffix("%")) if _NUMBER.fullmatch(text.removesuffix("%").strip()) else math.nan
    percent = number * 100 if number <= 1 else math.nan if number <= _SHORT_SCALE and "%" not in text else number
    if share:
        percent = 100 * float(share[1]) / float(share[2])
    if text in _CONFIDENCE_WORDS:
        percent = _CONFIDENCE_WORDS[text]
    if not 0 <= percent <= 100:  # also if it is not a number
        notes.append(f"{f'its confidence {text!r} is unknown' if text else 'no confidence'}; {_UNSTATED} was assumed")
        return confidence_from_anchor(_UNSTATED)
    anchor = confidence_to_anchor(Confidence(value=int(percent)))
    if isinstance(given, bool) or given != anchor:
        notes.append(f"its confidence {text!r} was read as {anchor}")
    return confidence_from_anchor(anchor)


def _category(item: Mapping[str, Any], reviewer: str, notes: list[str]) -> Category:
    name = _text(item.get("category"))
    if category := category_of_name(name):
        return category
    if name:
        notes.append(f"its category {name!r} is unknown")
    return default_category(reviewer)


def _choice(item: Mapping[str, Any], name: str, kind: Any, default: Any, notes: list[str]) -> Any:
    """One of a set of words; the default for anything else."""
    word = _word(item.get(name))
    if word in set(kind):
        return kind(word)
    notes.append(
        f"its {name} {word!r} is unknown; {default} was assumed" if word else f"no {name}; {default} was assumed"
    )
    return default


def _flag(item: Mapping[str, Any], name: str, notes: list[str]) -> bool:
    value = item.get(name, False)
    if isinstance(value, bool) or value is None:
        return bool(value)
    known = _FLAGS.get(str(value).strip().lower())
    notes.append(f"its {name} {str(value)[:40]!r} was read as {str(bool(known)).lower()}")
    return bool(known)


def _location(item: Mapping[str, Any], root: str, notes: list[str]) -> Location | None:
    """The place of a finding: its file, with the lines that it or the file's own text gives."""
    path, start, end = _first(item, _PATHS), None, None
    nested = next((place for name in (*_PATHS, *_PLACES) if (place := item.get(name)) and not _text(place)), None)
    nested = nested[0] if isinstance(nested, list) else nested
    if isinstance(nested, dict):
        nested = _with_known_keys(nested, _OWN_KEYS)
        item = {**nested, **item}
    path = path or (_first(nested, _PATHS) if isinstance(nested, dict) else _text(nested))
    path = _LINK.sub(r"\1", path).replace("`", "").strip()
    if not path:
        return None
    given = next((value for name in _STARTS if (value := item.get(name)) not in (None, "")), None)
    if isinstance(given, list):
        given = "-".join(map(_text, given[:2]))
    number = f"{given:.0f}" if isinstance(given, float) and given.is_integer() else _word(given)
    lines = _LINES.fullmatch(number)
    if lines and int(lines[1]):
        start, end = int(lines[1]), int(lines[2] or 0)
        if not strict_json.is_int(given):
            notes.append(f"its line {number!r} was read as {start}{f' to {end}' if end else ''}")
    elif number:
        notes.append(f"its line {number[:40]!r} is not a line")
    if (named := _PATH_AND_LINES.fullmatch(path)) and not _is_file(root, path):
        path = named["path"]
        start, end = start or int(named["start"]), end or int(named["end"] or 0)
        notes.append("its line was taken from its file")
    end = end or next((int(text) for name in _ENDS if (text := _word(item.get(name))).isdecimal()), 0)
    if item.get("x_line_absent") is True:
        start = None
    placed = repository_path(path, root)
    if placed != path:
        notes.append(f"its file {path[:200]!r} was read as {placed!r}")
    if root and placed.startswith("/"):
        raise ItemError(f"its file {path[:200]!r} is not in the repository")
    return Location(
        path=placed,
        start=start or None,
        end=end if end and start and end >= start else None,
        symbol=_text(item.get("symbol")),
    )


def repository_path(path: str, root: str) -> str:
    """A path as an agent gives it, from the root of the repository: not absolute, not from a diff."""
    if not root:
        return path
    base = root.rstrip("/")
    for prefix in (f"{base}/", f"{Path(base).resolve()}/"):
        if path.startswith(prefix):
            return path.removeprefix(prefix)
    if path.startswith("/") and ".." not in path:  # of another machine, such as a container
        parts = path.split("/")[-_MAX_PARTS:]
        ends = ("/".join(parts[at:]) for at in range(len(parts)))
        return next((end for end in ends if not end.startswith("/") and _is_file(base, end)), path)
    if path.startswith(("a/", "b/")) and not _is_file(base, path) and _is_file(base, path[2:]):
        return path[2:]
    return path


def _is_file(root: str, path: str) -> bool:
    """Whether the repository has this file; a path that no file can have is not one."""
    try:
        return Path(root, path).is_file()
    except OSError:
        return False


def _implied_action(autofix_class: AutofixClass, owner: Owner, fix: str) -> str:
    """What a reviewer would do that does not say: apply what has a fix, put off what a person or a release owns."""
    if autofix_class is AutofixClass.ADVISORY:
        return "acknowledge"
    if owner in (Owner.HUMAN, Owner.RELEASE):
        return "defer"
    return "apply" if fix or autofix_class is AutofixClass.SAFE_AUTO else ""


def _evidence(given: Any, root: str) -> Iterator[Evidence]:
    """Evidence as a list of texts or objects, or as one of them."""
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict):
            place = _location(one, root, [])
            quote = _first(one, ("quote", "code", "snippet", "text", "line_content"))
            if place or quote:
                start, end, path = (place.start, place.end, place.path) if place else (None, None, "")
                yield Evidence(path=path, start=start, end=end, quote=quote[:QUOTE], raw=quote)
        elif text := _text(one):
            yield parse_evidence(text, root)


# --- the rest of a review --------------------------------------------------------------------------------------------


def _sentences(given: Iterable[Any]) -> tuple[str, ...]:
    """Texts of one or several lists; one text counts as a list, and an object as its first text."""
    texts: list[str] = []
    for values in given:
        for value in values if isinstance(values, list) else [values]:
            text = (
                next((text for one in value.values() if (text := _text(one))), "")
                if isinstance(value, dict)
                else _text(value)
            )
            texts += [text] if text else []
    return tuple(dict.fromkeys(texts))


def _verdict(reviews: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """The worst verdict that a reviewer gives on the whole change, and its argument."""
    worst = ("", "")
    for review in reviews:
        given = review.get("verdict")
        inner = given if isinstance(given, dict) else {}
        word = "-".join(re.split(r"[\s_-]+", (_word(inner.get("verdict")) or _word(given)).upper()))
        if word in _VERDICTS and (not worst[0] or _VERDICTS.index(word) > _VERDICTS.index(worst[0])):
            worst = word, _text(review.get("argument")) or _text(inner.get("argument"))
    return worst


def _patterns(given: Iterable[Any]) -> Iterator[Mapping[str, str]]:
    """What reviewers found worth repeating."""
    for values in given:
        for value in values if isinstance(values, list) else ():
            fields = value if isinstance(value, dict) else {"name": value}
            if name := _text(fields.get("name")):
                yield {key: _text(fields.get(key)) for key in ("location", "rationale", "destination")} | {"name": name}


def _rulings(given: Iterable[Any]) -> Iterator[Answer]:
    """What a reviewer rules on findings by their numbers. What cannot be read leaves a finding as it is."""
    for values in given:
        for value in values if isinstance(values, list) else ():
            item = value if isinstance(value, dict) else {}
            number = _word(item.get("number")).removeprefix("#")
            word = "_".join(re.split(r"[\s_-]+", _word(item.get("ruling"))))
            if number.isascii() and number.isdecimal() and len(number) < _NUMBER_LENGTH and word in RULINGS:
                why = " ".join(_first(item, ("reason", "why", "because")).split())[:MAX_WHY]
                yield Answer(int(number), word, why, severity_of_word(_word(item.get("severity"))))


def parse_evidence(raw: str, root: str = "") -> Evidence:
    """What `path:line -- code` points to; any other text stays a text."""
    match = _EVIDENCE.fullmatch(raw.strip())
    if match is None:
        return Evidence(raw=raw)
    start, end = int(match["start"]) or None, int(match["end"] or 0) or None
    if start is None or (end is not None and end < start):
        return Evidence(raw=raw)
    code = (match["code"] or "").strip()
    if len(code) > 2 and code[0] == code[-1] == "`" and "`" not in code[1:-1]:
        code = code[1:-1]
    return Evidence(path=repository_path(match["path"], root), start=start, end=end, quote=code[:QUOTE], raw=raw)


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


def shorten_title(title: str) -> str:
    """A title no longer than the format allows."""
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"
