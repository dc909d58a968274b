"""One finding of a review agent, read leniently: what had to be guessed is noted on the draft."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import ItemError, first_text, text_of, unread_keys
from pipeline.findings.model import AutofixClass, Category, Confidence, Draft, Evidence, Location, Owner, Severity
from pipeline.findings.scales import (
    P_LEVEL,
    category_of_name,
    confidence_from_anchor,
    confidence_to_anchor,
    default_autofix,
    default_category,
    severity_of_text,
    severity_of_word,
)

FORMAT = "review"
MAX_TITLE_WORDS = 10  # more are noted
TITLES = ("title", "summary", "issue", "problem", "headline", "name", "message")
_IMPACTS = ("why_it_matters", "impact", "description", "details", "explanation", "reasoning", "rationale", "body")
_FIXES = ("suggested_fix", "fix", "suggestion", "remediation", "proposed_fix")
_PATHS = ("file", "path", "file_path", "filepath", "filename", "location")
_PLACES = (*_PATHS, "locations", "files", "paths")  # of a list only the first is the finding's; all are kept
_STARTS = ("line", "start_line", "lines", "line_number", "line_range")
_SEVERITIES = ("severity", "priority", "level", "cvss", "cvss_score")  # the first that is given
_CATEGORIES = ("category", "type", "kind")  # the first that is known
_BREAKING = ("system_breaking", "x_system_breaking")  # the second is that of verdict files
_QUOTES = ("quote", "code", "snippet", "text", "line_content")
KEYS = frozenset(
    {*TITLES, *_IMPACTS, *_FIXES, *_PATHS, *_STARTS, "end_line", "severity", "confidence", "evidence", "autofix_class"}
    | {"owner", "requires_verification", "pre_existing", "category", "symbol", "reproduction", "min_fix_scope"}
    | {"regression_tests", "plain_title", "recommendation", "why_it_works", "reviewer", *_BREAKING}
)
_CONFIDENCE_WORDS = {"certain": 100, "very high": 100, "high": 75, "medium": 50, "moderate": 50, "low": 25, "none": 0}
_ACTIONS = ("apply", "defer", "skip", "acknowledge")
_UNSTATED = 75  # the confidence of a finding whose reviewer gives none that is understood: it is not filtered for that
_SHOWN = 100  # characters of a value that cannot be read
_MAX_PARTS = 32  # of a path of another machine, from its end
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
_BLOCKS = re.compile(r"\W*(?:P0|critical|blocker|blocking)\W*[\]:)–—-]", re.IGNORECASE)  # before a title
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s-]+")
_LINES = re.compile(r"[~≈]?(?:l(?:ines?)?\s*)?(\d{1,9})(?:\D{1,4}(\d{1,9}))*")  # its first number, and its last
_PATH_AND_LINES = re.compile(
    r"(?P<path>.*?[^:\s,(#])(?::|#L|[\s,(]{1,3}lines?\s)(?P<lines>\d{1,9}(?:\s?(?:-|–|to)\s?L?\d{1,9})?)"
    r"(?::\d{1,9})?\)?(?:\s\([^()]*\))?"
)
_LINK = re.compile(r"\[[^\]\n]{0,300}\]\(([^)\s]{1,500})\)")
_EVIDENCE = re.compile(
    r"`?(?P<path>(?=[^\s:`./]*[./])[^\s:`]+):(?P<start>[1-9]\d{0,8})(?:-(?P<end>\d{1,9}))?`?"
    r"(?:\s+(?:--|—|–)\s+(?P<code>.*))?",
    re.DOTALL,
)


def read_item(value: Any, input_id: str, reviewer: str, root: str = "", note: str = "") -> Draft:
    """Return one item as a draft, with a note for everything that was not as the format asks.

    Raises ItemError for an item without a title, or with nothing else than a title.
    """
    if not isinstance(value, dict):
        raise ItemError("it should be an object")
    item, notes = with_known_keys(value, KEYS), list(filter(None, [note]))
    impact = first_text(item, _IMPACTS)
    title = first_text(item, TITLES) or impact.strip().partition("\n")[0].strip()
    locations = tuple(_locations(item, root, notes))
    evidence = tuple(_evidence(item.get("evidence"), root))
    if not title:
        raise ItemError("`title` is missing")
    if not (locations or impact or evidence):
        raise ItemError("it has neither a place nor a reason: `file` or `why_it_matters` is missing")
    if len(title.split()) > MAX_TITLE_WORDS:
        notes.append(f"its title has more than {MAX_TITLE_WORDS} words")

    action = word_of(item.get("recommendation"))
    fix = first_text(item, _FIXES if action in _ACTIONS else (*_FIXES, "recommendation"))
    severity, severity_text = _severity(item, notes)
    autofix_class, owner = default_autofix(fix, severity)
    autofix_class = _choice(item, "autofix_class", AutofixClass, autofix_class, notes)
    owner = _choice(item, "owner", Owner, owner, notes)
    if severity is Severity.LOW and autofix_class is AutofixClass.ADVISORY:
        severity = Severity.INFO
    return Draft(
        input_id=input_id,
        reviewer=reviewer,
        title=title,
        severity=severity,
        severity_text=severity_text,
        confidence=_confidence(item, notes),
        category=_category(item, reviewer, notes),
        impact=impact,
        fix=fix or None,
        plain_title=text_of(item.get("plain_title")),
        reproduction=text_of(item.get("reproduction")) or None,
        min_fix_scope=text_of(item.get("min_fix_scope")) or None,
        regression_tests=sentences(item.get("regression_tests")),
        why_it_works=text_of(item.get("why_it_works")),
        autofix_class=autofix_class,
        owner=owner,
        requires_verification=_flag(item, "requires_verification", notes),
        pre_existing=_flag(item, "pre_existing", notes),
        system_breaking=any(_flag(item, name, notes) for name in _BREAKING),
        locations=locations,
        evidence=evidence,
        action=action if action in _ACTIONS else _implied_action(autofix_class, owner, fix),
        notes=tuple(notes),
        ext=unread_keys(FORMAT, item, KEYS),
    )


def is_item(value: Any) -> bool:
    """Return whether a value looks like one finding, and not like a list of them with a title."""
    if not isinstance(value, dict) or not value.keys().isdisjoint(("findings", "issues")):
        return False
    item = with_known_keys(value, KEYS)
    if "severity" in item:
        return not item.keys().isdisjoint(("file", *TITLES))
    return item.keys() >= {"title", "file", "line"}


def with_known_keys(value: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the object with its keys as the format spells them: `Why it matters` is `why_it_matters`."""
    plain = {key: _WORD_BOUNDARY.sub("_", key.strip()).lower() for key in value}
    return {(name if name in known and name not in value else key): value[key] for key, name in plain.items()}


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and any other value as a list of one."""
    return value if isinstance(value, list) else [value]


def word_of(value: Any) -> str:
    """Return a text or number in lower case, without spaces around it."""
    return text_of(value).strip().lower()


def sentences(given: Any) -> tuple[str, ...]:
    """Return the texts of a list, or one text. An object counts as all of its texts: it may say that it is a P0."""
    values = (value.values() if isinstance(value, dict) else [value] for value in as_list(given))
    texts = (": ".join(filter(None, map(text_of, parts))) for parts in values)
    return tuple(dict.fromkeys(filter(None, texts)))


def _unknown(name: str, given: str) -> str:
    return f"its {name} {given!r} is unknown" if given else f"no {name}"


def _severity(item: Mapping[str, Any], notes: list[str]) -> tuple[Severity, str]:
    """Return the severity, and how it was written if nobody knows what that means."""
    given = next((item[name] for name in _SEVERITIES if item.get(name) not in (None, "")), "")
    word = word_of(given)
    severity = severity_of_text(word)
    if severity is None:
        shown = str(given).strip()[:_SHOWN]
        notes.append(f"{_unknown('severity', shown)}; it blocks")
        return Severity.HIGH, shown or "none given"
    if word not in ("p0", "p1", "p2", "p3"):
        notes.append(f"its severity {word!r} was read as {P_LEVEL[severity]}")
    if severity.rank > Severity.HIGH.rank and _is_said_to_block(item):
        notes.append(f"its severity is {word!r}, and it says that it blocks")
        return Severity.HIGH, f"{word}, and it says that it blocks"
    return severity, ""


def _is_said_to_block(item: Mapping[str, Any]) -> bool:
    """Return whether an item says that it must be fixed, by a flag or at the beginning of its title."""
    flags = (item.get(name) is True for name in ("blocking", "must_fix", "blocker", "block_merge"))
    rated = [severity_of_text(word_of(value)) for name, value in item.items() if name.strip().lower() in _SEVERITIES]
    rated.append(severity_of_word(word_of(item.get("impact"))))
    grave = any(severity is not None and severity.rank <= Severity.HIGH.rank for severity in rated)
    return any(flags) or grave or word_of(item.get("gate")) == "must" or bool(_BLOCKS.match(first_text(item, TITLES)))


def _confidence(item: Mapping[str, Any], notes: list[str]) -> Confidence:
    """Return the step at or below what a reviewer gave."""
    given = item.get("confidence")
    anchor = confidence_to_anchor(Confidence(value=percent_of(word_of(given))))
    if given != anchor:
        notes.append(f"its confidence ({str(given)[:_SHOWN]}) was read as {anchor}")
    return confidence_from_anchor(anchor)


def percent_of(text: str) -> int:
    """Return a word, a fraction or a percentage as a percentage. Anything from 2 to 10 may be on any scale."""
    number = _NUMBER.fullmatch(text)
    if number is None:
        return _CONFIDENCE_WORDS.get(text, _UNSTATED)
    value = float(number[1])
    if value <= 1:
        return int(100 * value)
    return int(value) if 10 < value <= 100 else _UNSTATED


def _category(item: Mapping[str, Any], reviewer: str, notes: list[str]) -> Category:
    known = filter(None, (category_of_name(text_of(item.get(name))) for name in _CATEGORIES))
    category = next(known, None)
    if category:
        return category
    name = text_of(item.get("category"))
    if name:
        notes.append(_unknown("category", name))
    return default_category(reviewer)


def _choice(item: Mapping[str, Any], name: str, kind: Any, default: Any, notes: list[str]) -> Any:
    """Return one of a set of words; the default for anything else."""
    word = word_of(item.get(name))
    if word in set(kind):
        return kind(word)
    notes.append(f"{_unknown(name, word)}; {default} was assumed")
    return default


def _flag(item: Mapping[str, Any], name: str, notes: list[str]) -> bool:
    value = item.get(name)
    if value in (None, True, False):
        return bool(value)
    known = word_of(value) in ("true", "yes")
    notes.append(f"its {name} {str(value)[:_SHOWN]!r} was read as {str(known).lower()}")
    return known


def _implied_action(autofix_class: AutofixClass, owner: Owner, fix: str) -> str:
    """Return what a silent reviewer would do: put off what a person or a release owns, apply what has a fix."""
    if autofix_class is AutofixClass.ADVISORY:
        return "acknowledge"
    if owner in (Owner.HUMAN, Owner.RELEASE):
        return "defer"
    return "apply" if fix or autofix_class is AutofixClass.SAFE_AUTO else ""


# --- places ----------------------------------------------------------------------------------------------------------


def _locations(given: Mapping[str, Any], root: str, notes: list[str]) -> Iterator[Location]:
    """Yield the place of a finding: its file, with the lines that it or the file's own text gives."""
    item = _with_place(given)
    said = first_text(item, _PATHS)
    path, lines = _LINK.sub(r"\1", said).replace("`", "").strip(), ""
    if not path:
        return
    if named := _PATH_AND_LINES.fullmatch(path):
        path, lines = named["path"], named["lines"]
    placed = repository_path(path, root)
    if placed != said:
        notes.append(f"its file {said[:_SHOWN]!r} was read as {placed[:_SHOWN]!r}")
    if root and placed.startswith("/"):
        raise ItemError(f"its file {said[:_SHOWN]!r} is not in the repository")
    start, end = _lines(item, lines, notes)
    yield Location(path=placed, start=start, end=end, symbol=text_of(item.get("symbol")))


def _with_place(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the item with what it says of its place in an inner object, or in a list of files."""
    for name in _PLACES:
        place = next(iter(as_list(item.get(name))), None)
        if isinstance(place, dict):
            return {**item, **with_known_keys(place, KEYS)}
        if text_of(place):
            return {**item, "file": place}
    return item


def _lines(item: Mapping[str, Any], of_path: str, notes: list[str]) -> tuple[int | None, int | None]:
    """Return the first and the last line of an item: 36, "L36", "36-38" and [36, 38] are lines."""
    given = next((item[name] for name in _STARTS if item.get(name)), of_path)
    text = "-".join(filter(None, map(word_of, (*as_list(given), item.get("end_line")))))
    lines = _LINES.fullmatch(text)
    if not strict_json.is_int(given):
        notes.append(f"its line is written {text[:_SHOWN]!r}")
    start, end = (int(lines[1]), int(lines[2] or 0)) if lines else (0, 0)
    return start or None, end if end >= start > 0 else None


def repository_path(path: str, root: str) -> str:
    """Return a path as an agent gives it from the root of the repository: not absolute, not from a diff.

    Of `/workspace/src/a.py`, on another machine, and of `b/src/a.py`, in a diff, it is what is a file here.
    """
    if not root:
        return path
    path = path.removeprefix(f"{root.rstrip('/')}/").removeprefix(f"{Path(root).resolve()}/")
    if not path.startswith(("/", "a/", "b/")) or ".." in path:
        return path
    parts = path.split("/")[-_MAX_PARTS:]
    starts = range(1, len(parts)) if path.startswith("/") else (0, 1)
    ends = ("/".join(parts[at:]) for at in starts)
    return next((end for end in ends if _is_file(root, end)), path)


def _is_file(root: str, path: str) -> bool:
    """Return whether the repository has this file; a path that no file can have is not one."""
    try:
        return Path(root, path).is_file()
    except (OSError, ValueError):
        return False


def _evidence(given: Any, root: str) -> Iterator[Evidence]:
    """Yield evidence from a list of texts or objects, or from one of them."""
    for value in as_list(given):
        text = _evidence_of_object(value) if isinstance(value, dict) else text_of(value)
        if text:
            yield parse_evidence(text, root)


def _evidence_of_object(given: Mapping[str, Any]) -> str:
    """Return an object with a file, a line and a quotation as the text that the format asks for."""
    item = with_known_keys(given, KEYS)
    place = ":".join(filter(None, (first_text(item, _PATHS), first_text(item, _STARTS))))
    return " -- ".join(filter(None, (place, first_text(item, _QUOTES))))


def parse_evidence(raw: str, root: str = "") -> Evidence:
    """Return what `path:line -- code` points to; any other text stays a text."""
    match = _EVIDENCE.fullmatch(raw.strip())
    if match is None or int(match["end"] or match["start"]) < int(match["start"]):
        return Evidence(raw=raw)
    code = (match["code"] or "").strip().strip("`")[:QUOTE]
    end = int(match["end"]) if match["end"] else None
    return Evidence(path=repository_path(match["path"], root), start=int(match["start"]), end=end, quote=code, raw=raw)
