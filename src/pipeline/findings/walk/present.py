"""What findings say, made fit to be shown: it can neither act on a terminal nor pass for a heading or a label."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from posixpath import basename

from pipeline.findings.events import Coverage, Disposition
from pipeline.findings.fingerprints import line_range, norm_title
from pipeline.findings.formats import review
from pipeline.findings.ledger import Ledger
from pipeline.findings.merge import passes
from pipeline.findings.model import AutofixClass, Finding, FindingId, RawFinding
from pipeline.findings.scales import P_LEVEL, confidence_to_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus

ELLIPSIS = "…"
TITLE = 120  # characters of a title; a few more than reviewers are allowed
_PROSE = 2000  # characters of a paragraph
_WORD = 20  # letters of a word that is rather left out than cut
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_ACTIVE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_MARKUP = re.compile(r"[#>*+\-=|~<]|```|___")
_NUMBER = re.compile(r"(\d+)[.)]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


def one_line(text: str, most: int = _PROSE) -> str:
    """A text from anywhere on one inert line, of at most so many characters."""
    begin = text[: 4 * most]
    if not (begin.isascii() and begin.isprintable()):
        begin = "".join(_shown(c) for c in " ".join(_ESCAPES.sub("", begin).split()))
    line = " ".join(begin.split())
    return line if len(line) <= most else f"{_begun(line[: most - 1])}{ELLIPSIS}"


def escaped(line: str) -> str:
    """A line that begins nothing in markdown: no heading, list, quotation, label or code."""
    if number := _NUMBER.match(line):
        return f"{number[1]}\\{line[number.end(1) :]}"
    return f"\\{line}" if _MARKUP.match(line) else line


def sentences(text: str) -> list[str]:
    """The sentences of one line."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence]


def fit(text: str, width: int) -> str:
    """A text in at most so many columns; one that is cut ends with an ellipsis."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, 0
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def count_of(number: int, word: str) -> str:
    """A number of things, such as `1 fix` or `3 fixes`."""
    many = f"{word}es" if word.endswith("x") else f"{word}s"
    return f"{number} {word if number == 1 else many}"


def _begun(text: str) -> str:
    """A text up to its last whole word, unless that is long."""
    whole, space, rest = text.rpartition(" ")
    return whole if space and len(rest) < _WORD else text


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shown(character: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _ACTIVE else character


_NEAR = 3  # lines by which two tellings of one defect may differ
_LARGEST = 16 * 1024 * 1024  # bytes of a return
_WHY = "why_it_works"


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole return of one reviewer, and where it lies."""

    path: str
    claims: tuple[RawFinding, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """What is told of a finding: what breaks, why the fix works, and where the whole fix can be read."""

    impact: str = ""
    why: str = ""
    pointer: str = ""
    missing: tuple[str, ...] = ()  # the reviewers that should have told what breaks, where none did


NO_DETAIL = Detail()


def read_artifacts(directory: Path, findings: Iterable[Finding]) -> dict[str, Artifact]:
    """The returns of those who reported some findings, by reviewer; one that is missing or unreadable is a gap."""
    names = dict.fromkeys(name for finding in findings for name in reviewers(finding))
    read = {name: _artifact(directory / f"{name}.json", name) for name in names if Path(name).name == name}
    return {name: artifact for name, artifact in read.items() if artifact}


def _artifact(path: Path, reviewer: str) -> Artifact | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except (OSError, ValueError):  # it was not kept, or no file can have that name: the report counts what is missing
        return None
    return Artifact(str(path), review.decode(content, reviewer=reviewer).findings)


def detail(finding: Finding, artifacts: Mapping[str, Artifact]) -> Detail:
    """What is told of a finding: by itself, else by the first of its reviewers whose return has it."""
    found = list(_found(finding, artifacts))
    path, first = found[0] if found else ("", None)
    impact = finding.impact or (first.impact if first else "")
    return Detail(
        impact=impact,
        why=_why_it_works(finding.ext) or (_why_it_works(first.ext) if first else ""),
        pointer=f"{path} → findings[].suggested_fix" if path else f"awf findings show {finding.number or finding.id}",
        missing=() if impact else reviewers(finding),
    )


def reviewers(finding: Finding) -> tuple[str, ...]:
    """Who reported a finding, in the order of their votes."""
    return tuple(dict.fromkeys(vote.reviewer for vote in finding.votes)) or finding.sources


def _found(finding: Finding, artifacts: Mapping[str, Artifact]) -> Iterator[tuple[str, RawFinding]]:
    for name in reviewers(finding):
        artifact = artifacts.get(name)
        if artifact is None:
            continue
        titles = {norm_title(vote.title) for vote in finding.votes if vote.reviewer == name} | {
            norm_title(finding.title)
        }
        yield from ((artifact.path, claim) for claim in artifact.claims if _same_defect(finding, claim, titles))


def _same_defect(finding: Finding, claim: RawFinding, titles: set[str]) -> bool:
    place, other = finding.location, claim.locations[0] if claim.locations else None
    if place is None or other is None or place.path != other.path:
        return False
    near = abs((place.start or 0) - (other.start or 0)) <= _NEAR
    return near and norm_title(claim.title) in titles


def _why_it_works(ext: Mapping[str, object]) -> str:
    unknown = ext.get(review.FORMAT)
    told = unknown.get(_WHY) if isinstance(unknown, Mapping) else None
    return told if isinstance(told, str) else ""


_DOUBTFUL = 50  # a confidence below this is told with the advice


class Action(StrEnum):
    """What can be done about a finding, the most careful first: where reviewers differ, the first one stands."""

    SKIP = "skip"  # nothing is done, and it stays open
    DEFER = "defer"  # a ticket
    APPLY = "apply"  # the fixer gets it
    ACKNOWLEDGE = "acknowledge"  # it was read; there is nothing to fix

    @property
    def word(self) -> str:
        """As it is called in a sentence."""
        return self.capitalize()

    @property
    def done(self) -> str:
        """As it is called when it has been done."""
        return {"skip": "Skipped", "defer": "Deferred", "apply": "Applied", "acknowledge": "Acknowledged"}[self]


@dataclass(frozen=True, slots=True)
class Voice:
    """The last thing one reviewer advised."""

    reviewer: str
    action: Action
    doubtful: bool = False

    def __str__(self) -> str:
        """In a sentence."""
        name = one_line(self.reviewer, 60)
        doubt = " (low confidence)" if self.doubtful else ""
        return f"{name[:1].upper()}{name[1:]} recommends {self.action.word}{doubt}"


def voices(finding: Finding) -> tuple[Voice, ...]:
    """Who advised what: each reviewer's last word, in the order in which they first spoke."""
    known = set(Action)
    told = {vote.reviewer: vote for vote in finding.votes if vote.action in known}
    return tuple(Voice(name, Action(vote.action), doubtful=vote.confidence < _DOUBTFUL) for name, vote in told.items())


def tie_break(actions: Iterable[Action]) -> Action | None:
    """The most careful of some actions; None when nobody advised any."""
    return min(actions, key=tuple(Action).index, default=None)


def recommended(finding: Finding, sinks: TrackerStatus) -> Action:
    """What is recommended: what reviewers advise, else what the finding itself suggests."""
    if (advised := tie_break(voice.action for voice in voices(finding))) is not None:
        return advised
    if finding.autofix_class is AutofixClass.ADVISORY:
        return Action.ACKNOWLEDGE
    if finding.fix:
        return Action.APPLY
    return Action.DEFER if sinks.any_sink_available else Action.SKIP


def conflict(finding: Finding, before: Action, after: Action, *, sink: bool) -> str:
    """Who differs, and what was made of it; nothing when all agree and nothing was changed for want of a tracker."""
    heard = voices(finding)
    differ = len({voice.action for voice in heard}) > 1
    moved = before is Action.DEFER and after is Action.SKIP and not sink
    parts = [f"{'; '.join(map(str, heard))}."] if differ else []
    parts += ["Stage 5 recommended Defer; downgraded to Skip — no tracker sink available."] if moved else []
    parts += [f"Agent's recommendation: {after.word}."] if differ else []
    return " ".join(parts)


_DECIDED_HERE = (AutofixClass.GATED_AUTO, AutofixClass.MANUAL)


@dataclass(frozen=True, slots=True)
class Item:
    """One finding to be decided on, with what is recommended and what is told of it."""

    finding: Finding
    recommended: Action
    detail: Detail = NO_DETAIL
    same_as: tuple[int, ...] = ()  # the numbers of findings that it may be the same as

    @property
    def advisory(self) -> bool:
        """Whether there is nothing to fix."""
        return self.finding.autofix_class is AutofixClass.ADVISORY

    @property
    def level(self) -> str:
        """Its severity, P0 to P3."""
        return P_LEVEL[self.finding.severity]


def walk_items(
    findings: Iterable[Finding],
    sinks: TrackerStatus,
    artifacts: Mapping[str, Artifact] | None = None,
    *,
    advisory: bool = False,
) -> tuple[Item, ...]:
    """The findings that need a decision; advice only where it is asked for."""
    classes = (*_DECIDED_HERE, AutofixClass.ADVISORY) if advisory else _DECIDED_HERE
    wanted = [finding for finding in findings if finding.autofix_class in classes and needs_decision(finding)]
    known = artifacts or {}
    return tuple(
        Item(finding, recommended(finding, sinks), detail(finding, known)) for finding in sorted(wanted, key=_order)
    )


def needs_decision(finding: Finding) -> bool:
    """Whether a finding is open, of this change, and sure enough to be put before a person."""
    return finding.state.active and not finding.pre_existing and passes(finding.severity, finding.confidence)


def _order(finding: Finding) -> tuple[str, int, str, int, int, str]:
    place = finding.location
    where = (place.path, place.start or 0) if place else ("", 0)
    return (P_LEVEL[finding.severity], -confidence_to_anchor(finding.confidence), *where, finding.number, finding.id)


RECOMMENDED = " (recommended)"
NO_SINK = "Defer unavailable on this platform — no durable tracker sink detected."
_NO_SINK_AT_ALL = "Defer unavailable — no durable tracker sink detected on this platform."


class OptionKey(StrEnum):
    """What an option is known by."""

    APPLY = "apply"
    ACKNOWLEDGE = "acknowledge"
    DEFER = "defer"
    SKIP = "skip"
    REST = "rest"  # this one and all that follow, as recommended
    PROCEED = "proceed"
    CANCEL = "cancel"
    RETRY = "retry"  # the same tracker
    FALLBACK = "fallback"  # the next one
    CONVERT = "convert"  # a ticket that cannot be made, into a skip
    EACH = "each"
    ALL = "all"
    FILE = "file"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Option:
    """One thing to choose."""

    key: OptionKey
    label: str
    marked: bool = False

    def __str__(self) -> str:
        """As it is shown."""
        return f"{self.label}{RECOMMENDED}" if self.marked else self.label


GO_OR_NOT = (Option(OptionKey.PROCEED, "Proceed"), Option(OptionKey.CANCEL, "Cancel"))
_LABELS = {
    OptionKey.APPLY: "Apply the proposed fix",
    OptionKey.ACKNOWLEDGE: "Acknowledge — mark as reviewed",
    OptionKey.SKIP: "Skip — don't apply, don't track",
    OptionKey.REST: "LFG the rest — apply the agent's best judgment to this and remaining findings",
}
_ALSO = {OptionKey.REST: ("lfg", "lfg the rest")}  # shorter names that are understood


def ticket(sinks: TrackerStatus) -> str:
    """What a ticket is called, with its tracker where that is sure: `Linear ticket` or `ticket`."""
    return f"{sinks.named} ticket" if sinks.named else "ticket"


def offered_action(action: Action, sinks: TrackerStatus, *, advisory: bool) -> Action:
    """A recommendation that is in the menu."""
    if advisory and action is Action.APPLY:
        return Action.ACKNOWLEDGE
    missing = action is Action.DEFER and not sinks.any_sink_available
    return Action.SKIP if missing or (action is Action.ACKNOWLEDGE and not advisory) else action


def menu(total: int, sinks: TrackerStatus, marked: Action | OptionKey, *, advisory: bool) -> tuple[Option, ...]:
    """The options for one of so many findings; exactly one is marked."""
    keys = [OptionKey.ACKNOWLEDGE if advisory else OptionKey.APPLY]
    keys += [OptionKey.DEFER] if sinks.any_sink_available else []
    keys += [OptionKey.SKIP]
    keys += [OptionKey.REST] if total > 1 else []
    wanted = OptionKey(offered_action(marked, sinks, advisory=advisory) if isinstance(marked, Action) else marked)
    chosen = wanted if wanted in keys else OptionKey.SKIP
    labels = {**_LABELS, OptionKey.DEFER: f"Defer — file a {ticket(sinks)}"}
    return tuple(Option(key, labels[key], marked=key is chosen) for key in keys)


def failed_menu(tracker: str) -> tuple[Option, ...]:
    """The options after a ticket could not be made."""
    return (
        Option(OptionKey.RETRY, f"Retry on {tracker}"),
        Option(OptionKey.FALLBACK, "Fall back to next sink"),
        Option(OptionKey.CONVERT, "Convert to Skip — record the failure"),
    )


def routing_question(total: int, sinks: TrackerStatus) -> tuple[str, tuple[Option, ...]]:
    """The question that comes before any finding, and its options."""
    stem = f"What should the agent do with the remaining {total} findings?"
    file = f"File a {sinks.named} ticket per finding" if sinks.named else "File an issue per finding"
    options = (
        Option(OptionKey.EACH, "Review each finding one by one — accept the recommendation or choose another action"),
        Option(OptionKey.ALL, "LFG. Apply the agent's best-judgment action per finding"),
        Option(OptionKey.FILE, f"{file} without applying fixes"),
        Option(OptionKey.REPORT, "Report only — take no further action"),
    )
    if sinks.any_sink_available:
        return stem, options
    return f"{stem}\n{_NO_SINK_AT_ALL}", tuple(option for option in options if option.key is not OptionKey.FILE)


def parse_choice(options: Iterable[Option], typed: str) -> OptionKey | None:
    """The option that is meant by a key, its first letter, its number or its label; None when none is."""
    word = " ".join(typed.casefold().split()).removesuffix(RECOMMENDED)
    for number, option in enumerate(options, 1):
        names = {option.key, option.key[0], str(number), option.label.casefold(), *_ALSO.get(option.key, ())}
        if word in names:
            return option.key
    return None


_SENTENCES = 3
_SPANS = 2  # in a sentence
_SPAN_WORDS = 4
_SPAN = 40  # characters
_CODE = 5  # lines
_SUMMARY = 200  # characters
_SUMMARY_WORDS = 3
_CODE_BLOCK = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ \t]*(?:```|~~~)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"`([^`]*)`")
_NESTED = re.compile(r"`(?:.*`|.*$)")  # from the first to the last
_TICKS = re.compile(r"`+")
_DIFF = re.compile(r"^(?:@@ .* @@|diff --git |--- a/|\+\+\+ b/)", re.MULTILINE)
_CHANGED = re.compile(r"^(?:\+|-\S)", re.MULTILINE)
_STATEMENT = re.compile(r"[;{}]|\$\{|=>|\b(?:if|for|while|return|throw|raise|await|const|let|var|def)\b.*\s")
_BEFORE = ("", " ", "(")
_AFTER = ("", " ", ".", ",", ";", ":", "!", "?", ")")  # a sentence may end with a name
_LONGEST = 20_000  # characters that are looked at


def lint(fix: str) -> list[str]:
    """What keeps a proposed fix from being shown as it is, all of it at once."""
    text = fix[:_LONGEST]
    prose = _CODE_BLOCK.sub("\n\n", text)
    told = list(_prose(prose))
    found = [*_code_faults(text, prose), *_tick_faults(prose)]
    found += [fault for sentence in told for fault in _span_faults(sentence)]
    if len(fix) > _LONGEST or len(told) > _SENTENCES:
        found.append(f"it has more than {_SENTENCES} sentences: one that says what it achieves is enough")
    return list(dict.fromkeys(found))


def proposal(fix: str, place: str, pointer: str) -> str:
    """A proposed fix as markdown: itself where it keeps the rules, else a summary, the place and where the rest is."""
    if not lint(fix):
        return "\n\n".join(_fix_parts(fix))
    told = _summary(next(_prose(_CODE_BLOCK.sub("\n\n", fix[:_LONGEST])), ""))
    where = f" At {place}." if place else ""
    return f"{escaped(told)}{where}\n\nFull fix: {pointer}"


def _summary(sentence: str) -> str:
    """A sentence without the code in it; where that was most of it, one that says no more than that there is some."""
    coded = any(_tick_faults(sentence)) or any(_is_code(span) for span in _INLINE.findall(sentence))
    told = one_line(_NESTED.sub(ELLIPSIS, sentence) if coded else sentence.replace("`", ""), _SUMMARY)
    words = [word for word in told.split() if word.strip("….,;:")]
    return told if len(words) >= _SUMMARY_WORDS and not _DIFF.match(told) else "Change the code."


def _code_faults(text: str, prose: str) -> Iterator[str]:
    for block in _CODE_BLOCK.finditer(text):
        if block["language"] == "diff" or _DIFF.search(block["code"]) or _CHANGED.search(block["code"]):
            yield "it has a diff: say in a sentence what changes"
        elif block["code"].count("\n") > _CODE:
            yield f"its code has more than {_CODE} lines: say in a sentence what it does"
    if _DIFF.search(prose):
        yield "it has a diff: say in a sentence what changes"


def _tick_faults(prose: str) -> Iterator[str]:
    ticks = _TICKS.findall(prose)
    if any(len(run) > 1 for run in ticks) or len(ticks) % 2:
        yield "its backticks are nested or left open"


def _span_faults(sentence: str) -> Iterator[str]:
    spans = list(_INLINE.finditer(sentence))
    if len(spans) > _SPANS:
        yield f"a sentence has more than {_SPANS} code spans"
    for span in spans:
        code = span[1]
        if _is_code(code):
            yield f"`{code[:_SPAN]}` is more than a name, an operator or a short phrase"
        if sentence[: span.start()][-1:] not in _BEFORE or sentence[span.end() :][:1] not in _AFTER:
            yield f"`{code[:_SPAN]}` has no space around it"


def _is_code(span: str) -> bool:
    """Whether a span is more than a name, an operator or a short phrase."""
    return len(span) > _SPAN or len(span.split()) > _SPAN_WORDS or bool(_STATEMENT.search(span))


def _prose(text: str) -> Iterator[str]:
    """The sentences of a text without its code, each on a line."""
    for paragraph in re.split(r"\n\s*\n", text):
        yield from sentences(one_line(paragraph))


def _fix_parts(fix: str) -> Iterator[str]:
    """The paragraphs of a fix that keeps the rules, and its code as code."""
    at = 0
    for block in _CODE_BLOCK.finditer(fix):
        yield from _fix_paragraphs(fix[at : block.start()])
        yield "\n".join(["```", *(_kept(line) for line in block["code"].splitlines()), "```"])
        at = block.end()
    yield from _fix_paragraphs(fix[at:])


def _fix_paragraphs(text: str) -> Iterator[str]:
    return (escaped(line) for part in re.split(r"\n\s*\n", text) if (line := one_line(part)))


def _kept(line: str) -> str:
    """A line of code with its indentation, and nothing that acts."""
    body = line.lstrip(" ")
    return " " * (len(line) - len(body)) + one_line(body, 200)


WRONG, FIX, WHY = "What's wrong", "Proposed fix", "Why it works"
UNDECIDED = "No concrete fix proposed; needs a decision."
_WORDS = 8  # of a title
_WHY_SENTENCES = 3
_LINE = re.compile(
    r"\s+(?:on|at|in)\s+lines?\s+\d+(?:\s*[-–]\s*\d+)?\s*$|\s*\(lines?\s+\d+(?:\s*[-–]\s*\d+)?\)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Block:
    """What is shown before the question."""

    heading: str
    place: str
    sections: tuple[tuple[str, str], ...]  # a label, and markdown below it
    conflict: str = ""

    def __str__(self) -> str:
        """As markdown."""
        told = [f"**{label}**\n\n{text}" for label, text in self.sections]
        parts = [f"## {self.heading}", escaped(self.place), *told, escaped(self.conflict)]
        return "\n\n".join(part for part in parts if part)


def title(finding: Finding) -> str:
    """What happens, in at most eight words and without the line."""
    told = one_line(finding.plain_title or finding.title, TITLE)
    words = (_LINE.sub("", told) or told).rstrip(".").split()
    return " ".join(words) if len(words) <= _WORDS else f"{' '.join(words[:_WORDS])}{ELLIPSIS}"


def handle(finding: Finding) -> str:
    """The title within a sentence: a word that is only capitalised because it comes first is not."""
    told = title(finding)
    first = told.split(" ", 1)[0]
    return told[:1].lower() + told[1:] if first[1:] == first[1:].lower() and len(first) > 1 else told


def place(finding: Finding, *, whole: bool = False) -> str:
    """`path:line`, or with all its lines; nothing when it is nowhere."""
    at = finding.location
    if at is None:
        return ""
    path = one_line(at.path, 200)
    if at.start is None:
        return path
    return f"{path}:{line_range(at) if whole else at.start}"


def block(item: Item, number: int, total: int, sinks: TrackerStatus) -> Block:
    """What explains a finding, the number-th of so many."""
    return Block(
        heading=f"{_position(number, total, ' — ')}{item.level} {title(item.finding)}",
        place=" — ".join(part for part in (place(item.finding), _same_as(item)) if part),
        sections=tuple(_sections(item)),
        conflict=_conflict(item, sinks),
    )


def stem(item: Item, number: int, total: int, sinks: TrackerStatus) -> str:
    """The question: what is recommended, as a yes or no."""
    lines = [f"{_position(number, total, ' — ')}{item.level} {handle(item.finding)}.", _framing(item, sinks)]
    told = _conflict(item, sinks)
    lines += [f"({told})"] if told else []
    lines += [] if sinks.any_sink_available else [NO_SINK]
    return "\n".join(lines)


def confirmation(item: Item, action: Action, reference: str = "") -> str:
    """What was done, in one line."""
    if action is Action.DEFER:
        return f"→ Deferred. Ticket filed: {one_line(reference, 400)}."
    where = place(item.finding, whole=True)
    if action is Action.APPLY and where:
        return f"→ Applied. Fix staged at {where}."
    return f"→ {action.done}."


def _same_as(item: Item) -> str:
    return f"may be the same as {', '.join(f'#{number}' for number in item.same_as)}" if item.same_as else ""


def _position(number: int, total: int, then: str) -> str:
    return f"Finding {number} of {total}{then}" if total > 1 else ""


def _conflict(item: Item, sinks: TrackerStatus) -> str:
    shown = offered_action(item.recommended, sinks, advisory=item.advisory)
    return conflict(item.finding, item.recommended, shown, sink=sinks.any_sink_available)


def _sections(item: Item) -> list[tuple[str, str]]:
    told = item.detail
    fix = _proposed(item)
    if not told.impact:
        return [(FIX, fix)] if fix else []
    sections = [(WRONG, _paragraphs(told.impact)), (FIX, fix), (WHY, _reasoning(told.why))]
    return [(label, text) for label, text in sections if text]


def _proposed(item: Item) -> str:
    finding = item.finding
    if finding.fix and finding.fix.strip():
        return proposal(finding.fix, place(finding), item.detail.pointer)
    return "" if item.advisory else UNDECIDED


def _reasoning(why: str) -> str:
    return escaped(" ".join(sentences(one_line(why))[:_WHY_SENTENCES]))


def _paragraphs(text: str) -> str:
    return "\n\n".join(escaped(line) for part in re.split(r"\n\s*\n", text[:20_000]) if (line := one_line(part)))


def _framing(item: Item, sinks: TrackerStatus) -> str:
    """What the recommended action does, as a question in one phrase."""
    finding = item.finding
    match offered_action(item.recommended, sinks, advisory=item.advisory):
        case Action.APPLY:
            at = finding.location
            return f"Apply the proposed fix in {one_line(basename(at.path), 60)}?" if at else "Apply the proposed fix?"
        case Action.DEFER:
            return f"Defer and file a {ticket(sinks)}?"
        case Action.ACKNOWLEDGE:
            return "Acknowledge it as reviewed?"
        case Action.SKIP:
            return "Skip the fix and leave the finding open?"


_NOT_SHOWN = (Disposition.SUPPRESSED, Disposition.FILTERED)


class Route(StrEnum):
    """How the findings are gone through."""

    EACH = "each"  # one by one
    ALL = "all"  # all at once, as recommended
    FILE = "file"  # a ticket for each, and no fix
    REPORT = "report"  # nothing is done


class Step(StrEnum):
    """What a walk waits for."""

    ROUTING = "routing"  # which way to go
    ASKING = "asking"  # what to do about the finding at its position
    CONFIRMING = "confirming"  # that the first ticket may go to a tracker whose name was not told
    FILING = "filing"  # a ticket
    FAILED = "failed"  # what to do instead of a ticket that could not be made
    FALLING_BACK = "falling back"  # the next tracker
    VALIDATING = "validating"  # whether what is left holds
    PREVIEWING = "previewing"  # that a plan may be carried out
    FIXING = "fixing"  # the fixer
    OVER = "over"


@dataclass(frozen=True, slots=True)
class WalkDecision:
    """A decision on one finding."""

    action: Action
    reason: str = ""
    reference: str = ""  # of the ticket
    tracker: str = ""
    unsunk: bool = False  # skipped for want of a tracker


@dataclass(frozen=True, slots=True)
class Trouble:
    """A ticket that could not be made, and what was done then."""

    id: FindingId
    tracker: str
    reason: str
    then: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validator says of one finding."""

    validated: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fixes:
    """What became of the accepted fixes. One that is in neither was not tried."""

    made: frozenset[FindingId] = frozenset()
    failed: Mapping[FindingId, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True)
class WalkContext:
    """What a report tells beside the findings that were gone through."""

    findings: tuple[Finding, ...] = ()  # all that stand, gone through or not
    coverage: Coverage | None = None  # of the last pass
    suppressed: int = 0  # items of the last pass that nobody is shown
    reviewed: bool = True  # whether there was a pass at all


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk through some findings stands."""

    items: tuple[Item, ...]
    around: WalkContext
    sinks: TrackerStatus = NO_TRACKER
    route: Route = Route.EACH
    validates: bool = False  # whether somebody can be asked if findings hold
    confirms: bool = False  # whether the first ticket for a tracker that was not named needs a word
    step: Step = Step.ASKING
    position: int = 0
    decided: Mapping[FindingId, WalkDecision] = field(default_factory=dict)  # in the order in which it was
    judged: Mapping[FindingId, Validation] = field(default_factory=dict)
    dropped: Mapping[FindingId, str] = field(default_factory=dict)  # refused by the validator, and why
    plan: tuple[tuple[Item, Action], ...] = ()  # agreed to, and not yet carried out
    troubles: tuple[Trouble, ...] = ()
    fixes: Fixes = Fixes()

    @property
    def item(self) -> Item:
        """The finding that is the matter now."""
        return self.plan[0][0] if self.plan else self.items[self.position]

    @property
    def tracker(self) -> str:
        """The tracker that gets the next ticket."""
        return self.sinks.tracker_name or "the tracker"

    @property
    def remaining(self) -> tuple[Item, ...]:
        """What is not decided, with the finding that is the matter now."""
        return self.items[self.position :]

    @property
    def accepted(self) -> tuple[FindingId, ...]:
        """The findings whose fixes were accepted, in the order of the walk."""
        chosen = {id for id, made in self.decided.items() if made.action is Action.APPLY}
        return tuple(item.finding.id for item in self.items if item.finding.id in chosen)


def walk_context(ledger: Ledger) -> WalkContext:
    """What a ledger says about the findings that are gone through."""
    last = ledger.last
    hidden = sum(entry.disposition in _NOT_SHOWN for entry in last.entries) if last else 0
    return WalkContext(tuple(ledger), ledger.coverage(), hidden, last is not None)


Planned = tuple[Item, Action]
_WIDTH = 80
_PURPOSE = {
    Route.ALL: "apply the plan above",
    Route.FILE: "file the tickets above",
    Route.EACH: "resolve the remaining findings above",
}


def preview_stem(route: Route) -> str:
    """The question after a preview."""
    return f"The agent is about to {_PURPOSE[route]}. Proceed?"


def preview(
    planned: Sequence[Planned], sinks: TrackerStatus, route: Route, decided: int, dropped: Mapping[FindingId, Item]
) -> str:
    """The plan: a heading, then what is to be done, by what it is. Nothing to do is not mentioned."""
    buckets = [
        ("Applying", _with_action(planned, Action.APPLY)),
        (f"Filing {ticket(sinks)}s", _with_action(planned, Action.DEFER)),
        ("Skipping", [item for item in _with_action(planned, Action.SKIP) if not _moved(item, sinks)]),
        (
            "Skipping — defer sink unavailable",
            [item for item in _with_action(planned, Action.SKIP) if _moved(item, sinks)],
        ),
        ("Acknowledging", _with_action(planned, Action.ACKNOWLEDGE)),
        ("Dropping — refused by the validator", list(dropped.values())),
    ]
    told = ["\n".join([f"{name} ({len(items)}):", *map(_plan_line, items)]) for name, items in buckets if items]
    return "\n\n".join([_heading(planned, sinks, route, decided), *told])


def _heading(planned: Sequence[Planned], sinks: TrackerStatus, route: Route, decided: int) -> str:
    many = len(planned)
    findings = "finding" if many == 1 else "findings"
    if route is Route.FILE:
        return f"File plan — {many} {findings} as {ticket(sinks)}s:"
    filing = sinks.named and _with_action(planned, Action.DEFER)
    tracker = f" (tracker: {sinks.named})" if filing else ""
    if route is Route.ALL:
        return f"LFG plan — {many} {findings}{tracker}:"
    return f"LFG plan — {many} remaining {findings} ({decided} already decided){tracker}:"


def _with_action(planned: Sequence[Planned], action: Action) -> list[Item]:
    return [item for item, what in planned if what is action]


def _moved(item: Item, sinks: TrackerStatus) -> bool:
    return item.recommended is Action.DEFER and not sinks.any_sink_available


def _plan_line(item: Item) -> str:
    where = place(item.finding)
    return fit(f"  [{item.level}] {f'{where} — ' if where else ''}{title(item.finding)}", _WIDTH)
