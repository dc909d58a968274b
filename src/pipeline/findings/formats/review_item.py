"""One finding of a review agent, read leniently: what had to be guessed is noted on the draft."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import ItemError
from pipeline.findings.model import AutofixClass, Category, Confidence, Draft, Evidence, Location, Owner, Severity
from pipeline.findings.scales import (
    P_LEVEL,
    category_of_name,
    confidence_from_anchor,
    confidence_to_anchor,
    default_autofix,
    default_category,
    severity_of_text,
)
from pipeline.text import truncate_length

FORMAT = "review"
MAX_TITLE = 100  # characters
MAX_TITLE_WORDS = 10  # more are noted
TITLES = ("title", "summary", "issue", "problem", "headline", "name", "message")
_IMPACTS = ("why_it_matters", "impact", "description", "details", "explanation", "reasoning", "rationale", "body")
_FIXES = ("suggested_fix", "fix", "suggestion", "remediation", "proposed_fix")
_PATHS = ("file", "path", "file_path", "filepath", "filename", "location")
_PLACES = ("locations", "files", "paths")  # only the first is the finding's; all are kept
_STARTS = ("line", "start_line", "startLine", "lines", "line_number", "lineRange", "line_range")
_ENDS = ("end_line", "endLine")
_BLOCKS = re.compile(r"\W*(?:P0|critical|blocker|blocking)\W*[\]:)–—-]", re.IGNORECASE)  # before a title
_MAX_SEVERITY = 100  # characters of one that cannot be read
_SEVERITIES = ("severity", "priority", "level", "cvss", "cvss_score")  # the first that is given
_CATEGORIES = ("category", "type", "kind")  # the first that is known
_QUOTES = ("quote", "code", "snippet", "text", "line_content")
KEYS = frozenset(
    {*TITLES, *_IMPACTS, *_FIXES, *_PATHS, *_STARTS, *_ENDS, "severity", "confidence", "evidence", "autofix_class"}
    | {"owner", "requires_verification", "pre_existing", "category", "symbol", "reproduction", "min_fix_scope"}
    | {"regression_tests", "plain_title", "recommendation", "system_breaking", "why_it_works", "reviewer"}
    | {"x_title", "x_severity", "x_system_breaking", "x_line_absent", "x_evidence_absent"}
)
_CONFIDENCE_WORDS = {"certain": 100, "very high": 100, "high": 75, "medium": 50, "moderate": 50, "low": 25, "none": 0}
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_ACTIONS = ("apply", "defer", "skip", "acknowledge")
_SHORT_SCALE = 10  # confidence from 2 to this may be on any scale
_UNSTATED = 75  # the confidence of a finding whose reviewer gives none: it is not filtered for that
_MAX_PARTS = 32  # of a path of another machine, from its end
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OF_TEN = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(?:/|out of)\s*([1-9]\d{0,2})")
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


def read_item(value: Any, input_id: str, reviewer: str, root: str = "", note: str = "") -> Draft:
    """Return one item as a draft, with a note for everything that was not as the format asks.

    Raises ItemError for an item without a title, or with nothing else than a title.
    """
    if not isinstance(value, dict):
        raise ItemError("it should be an object")
    item, notes = with_known_keys(value, KEYS), [note] if note else []
    impact = first_text(item, _IMPACTS)
    title = _title(item, impact, notes)
    location = _location(item, root, notes)
    evidence = tuple(_evidence(item.get("evidence"), root))
    if not title:
        raise ItemError("`title` is missing")
    if not (location or impact or evidence):
        raise ItemError("it has neither a place nor a reason: `file` or `why_it_matters` is missing")

    action = word_of(item.get("recommendation"))
    advised = "" if action in _ACTIONS else text_of(item.get("recommendation"))
    fix = first_text(item, _FIXES) or advised
    severity, severity_text = _severity(item, notes)
    autofix_class, owner = default_autofix(fix, severity)
    autofix_class = _choice(item, "autofix_class", AutofixClass, autofix_class, notes)
    if severity is Severity.LOW and autofix_class is AutofixClass.ADVISORY and item.get("x_severity") != "low":
        severity = Severity.INFO
    owner = _choice(item, "owner", Owner, owner, notes)
    extra = {key: kept for key, kept in item.items() if key not in KEYS}
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
        regression_tests=sentences([item.get("regression_tests")]),
        why_it_works=text_of(item.get("why_it_works")),
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


def is_item(value: Any) -> bool:
    """Return whether a value looks like one finding."""
    item = with_known_keys(value, KEYS) if isinstance(value, dict) else {}
    if "severity" in item:
        return bool(item.keys() & {"file", *TITLES})
    return item.keys() >= {"title", "file", "line"}


def with_known_keys(value: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the object with its keys as the format spells them: `Why it matters` is `why_it_matters`."""
    keys = {key: key if key in known else _WORD_BOUNDARY.sub("_", key.strip()).lower() for key in value}
    return {(plain if plain in known and plain not in value else key): value[key] for key, plain in keys.items()}


def text_of(value: Any) -> str:
    """Return a text or number as a text; nothing for what is blank or anything else."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return text if text.strip() else ""


def word_of(value: Any) -> str:
    """Return a text or number in lower case, without spaces around it."""
    return text_of(value).strip().lower()


def first_text(item: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of some fields that is a text or a number."""
    texts = (text_of(item.get(name)) for name in names)
    return next(filter(None, texts), "")


def sentences(given: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts of one or several lists; one text counts as a list, and an object as its first text."""
    values = (value for part in given for value in (part if isinstance(part, list) else [part]))
    texts = (_sentence(value) if isinstance(value, dict) else text_of(value) for value in values)
    return tuple(dict.fromkeys(filter(None, texts)))


def _sentence(value: Mapping[str, Any]) -> str:
    """Return an object as its first text; one that is rated critical says so."""
    text = first_text(value, [key for key in value if key not in _SEVERITIES])
    rated = next((word_of(value.get(name)) for name in _SEVERITIES if word_of(value.get(name))), "")
    return f"P0: {text}" if rated and severity_of_text(rated) is Severity.CRITICAL else text


def shorten_title(title: str) -> str:
    """Return a title no longer than the format allows."""
    return truncate_length(title, MAX_TITLE)


def _title(item: Mapping[str, Any], impact: str, notes: list[str]) -> str:
    title = first_text(item, TITLES)
    if not title and impact:
        title = impact.strip().splitlines()[0]
        notes.append("it has no title; its text was taken")
    whole = text_of(item.get("x_title"))
    if whole and shorten_title(whole) == title:
        title = whole
    words = len(title.split())
    if words > MAX_TITLE_WORDS:
        notes.append(f"its title has {words} words; use at most {MAX_TITLE_WORDS}")
    return title


def _severity(item: Mapping[str, Any], notes: list[str]) -> tuple[Severity, str]:
    """Return the severity, and how it was written if nobody knows what that means."""
    name = next((name for name in _SEVERITIES if item.get(name) not in (None, "")), "")
    word = word_of(item.get(name))
    if not name:
        notes.append("no severity; high was assumed")
        return Severity.HIGH, ""
    if not word:
        given = strict_json.dumps(item[name]).decode().strip()[:_MAX_SEVERITY]
        notes.append(f"its severity {given} cannot be read; high was assumed")
        return Severity.HIGH, given
    severity = severity_of_text(f"cvss {word}" if name.startswith("cvss") else word)
    if severity is None:
        notes.append(f"its severity {word!r} is unknown; high was assumed")
        return Severity.HIGH, text_of(item[name]).strip()
    if word not in ("p0", "p1", "p2", "p3"):
        notes.append(f"its severity {word!r} was read as {P_LEVEL[severity]}")
    if severity.rank > Severity.HIGH.rank and _is_said_to_block(item):
        notes.append(f"its severity is {word!r}, and it says that it blocks")
        return Severity.HIGH, f"{word}, and it says that it blocks"
    if severity is Severity.LOW and item.get("x_severity") == "info":
        severity = Severity.INFO
    return severity, ""


def _is_said_to_block(item: Mapping[str, Any]) -> bool:
    """Return whether an item says that it must be fixed, by a flag or at the beginning of its title."""
    flags = any(item.get(name) is True for name in ("blocking", "must_fix", "blocker"))
    return flags or word_of(item.get("gate")) == "must" or bool(_BLOCKS.match(first_text(item, TITLES)))


def _confidence(item: Mapping[str, Any], notes: list[str]) -> Confidence:
    """Return the step at or below what a reviewer gave."""
    given = item.get("confidence")
    text = word_of(given)
    percent = _percent(text)
    if not 0 <= percent <= 100:  # also if it is not a number
        notes.append(f"{f'its confidence {text!r} is unknown' if text else 'no confidence'}; {_UNSTATED} was assumed")
        return confidence_from_anchor(_UNSTATED)
    anchor = confidence_to_anchor(Confidence(value=int(percent)))
    if isinstance(given, bool) or given != anchor:
        notes.append(f"its confidence {text!r} was read as {anchor}")
    return confidence_from_anchor(anchor)


def _percent(text: str) -> float:
    """Return a word, a share such as 8/10, a percentage or a fraction as a percentage; NaN for anything else."""
    if text in _CONFIDENCE_WORDS:
        return _CONFIDENCE_WORDS[text]
    share = _OF_TEN.fullmatch(text)
    if share:
        return 100 * float(share[1]) / float(share[2])
    digits = text.removesuffix("%").strip()
    if not _NUMBER.fullmatch(digits):
        return math.nan
    number = float(digits)
    if number <= 1:
        return number * 100
    return math.nan if number <= _SHORT_SCALE and "%" not in text else number


def _category(item: Mapping[str, Any], reviewer: str, notes: list[str]) -> Category:
    known = filter(None, (category_of_name(text_of(item.get(name))) for name in _CATEGORIES))
    category = next(known, None)
    if category:
        return category
    name = text_of(item.get("category"))
    if name:
        notes.append(f"its category {name!r} is unknown")
    return default_category(reviewer)


def _choice(item: Mapping[str, Any], name: str, kind: Any, default: Any, notes: list[str]) -> Any:
    """Return one of a set of words; the default for anything else."""
    word = word_of(item.get(name))
    if word in set(kind):
        return kind(word)
    said = f"its {name} {word!r} is unknown" if word else f"no {name}"
    notes.append(f"{said}; {default} was assumed")
    return default


def _flag(item: Mapping[str, Any], name: str, notes: list[str]) -> bool:
    value = item.get(name, False)
    if isinstance(value, bool) or value is None:
        return bool(value)
    known = bool(_FLAGS.get(str(value).strip().lower()))
    notes.append(f"its {name} {str(value)[:40]!r} was read as {str(known).lower()}")
    return known


def _implied_action(autofix_class: AutofixClass, owner: Owner, fix: str) -> str:
    """Return what a silent reviewer would do: put off what a person or a release owns, apply what has a fix."""
    if autofix_class is AutofixClass.ADVISORY:
        return "acknowledge"
    if owner in (Owner.HUMAN, Owner.RELEASE):
        return "defer"
    return "apply" if fix or autofix_class is AutofixClass.SAFE_AUTO else ""


# --- places ----------------------------------------------------------------------------------------------------------


class _Span(NamedTuple):
    """The lines that a text names; 0 for one that it does not."""

    start: int = 0
    end: int = 0


def _location(given: Mapping[str, Any], root: str, notes: list[str]) -> Location | None:
    """Return the place of a finding: its file, with the lines that it or the file's own text gives."""
    item, nested_path = _with_nested_place(given)
    path = _LINK.sub(r"\1", first_text(item, _PATHS) or nested_path).replace("`", "").strip()
    if not path:
        return None
    lines = _lines(item, notes)
    named = _PATH_AND_LINES.fullmatch(path)
    if named and not _is_file(root, path):
        path = named["path"]
        lines = _Span(lines.start or int(named["start"]), lines.end or int(named["end"] or 0))
        notes.append("its line was taken from its file")
    placed = repository_path(path, root)
    if placed != path:
        notes.append(f"its file {path[:200]!r} was read as {placed!r}")
    if root and placed.startswith("/"):
        raise ItemError(f"its file {path[:200]!r} is not in the repository")
    start = None if item.get("x_line_absent") is True else lines.start or None
    end = lines.end if start and lines.end >= start else None
    return Location(path=placed, start=start, end=end, symbol=text_of(item.get("symbol")))


def _with_nested_place(item: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the item with what it says of its place in an inner object, and a path from an inner list."""
    values = (item.get(name) for name in (*_PATHS, *_PLACES))
    nested = next((value for value in values if value and not text_of(value)), None)
    if isinstance(nested, list):
        nested = nested[0]
    if not isinstance(nested, dict):
        return item, text_of(nested)
    inner = with_known_keys(nested, KEYS)
    stated = {name: value for name, value in item.items() if value not in (None, "")}
    return {**item, **inner, **stated}, first_text(inner, _PATHS)


def _lines(item: Mapping[str, Any], notes: list[str]) -> _Span:
    """Return the lines of an item; an end of its own beats the end of a range."""
    ends = (word_of(item.get(name)) for name in _ENDS)
    end = next((int(text) for text in ends if text.isascii() and text.isdecimal() and len(text) < 10), 0)
    given = next((item[name] for name in _STARTS if item.get(name) not in (None, "")), None)
    text = _line_text(given)
    lines = _LINES.fullmatch(text)
    if lines is None or not int(lines[1]):
        if text:
            notes.append(f"its line {text[:40]!r} is not a line")
        return _Span(0, end)
    span = _Span(int(lines[1]), end or int(lines[2] or 0))
    if not strict_json.is_int(given):
        notes.append(f"its line {text!r} was read as {span.start}{f' to {span.end}' if span.end else ''}")
    return span


def _line_text(given: Any) -> str:
    """Return a line as a text: 36, 36.0, [36, 38] and "L36" are lines."""
    if isinstance(given, list):
        return "-".join(map(text_of, given[:2]))
    if isinstance(given, float) and given.is_integer():
        return f"{given:.0f}"
    return word_of(given)


def repository_path(path: str, root: str) -> str:
    """Return a path as an agent gives it from the root of the repository: not absolute, not from a diff."""
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
    """Return whether the repository has this file; a path that no file can have is not one."""
    try:
        return Path(root, path).is_file()
    except (OSError, ValueError):
        return False


def _evidence(given: Any, root: str) -> Iterator[Evidence]:
    """Return evidence from a list of texts or objects, or from one of them."""
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict):
            yield from _evidence_of_object(one, root)
        elif text_of(one):
            yield parse_evidence(text_of(one), root)


def _evidence_of_object(item: Mapping[str, Any], root: str) -> Iterator[Evidence]:
    place, quote = _location(item, root, []), first_text(item, _QUOTES)
    if place:
        yield Evidence(path=place.path, start=place.start, end=place.end, quote=quote[:QUOTE], raw=quote)
    elif quote:
        yield Evidence(quote=quote[:QUOTE], raw=quote)


def parse_evidence(raw: str, root: str = "") -> Evidence:
    """Return what `path:line -- code` points to; any other text stays a text."""
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
