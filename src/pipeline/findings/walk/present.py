"""A walk as people see it: the block that explains a finding, the question below it, the plan before a bulk apply.

The block is markdown, the question is plain text, and neither repeats the other. What findings say is sanitized: it can
neither control a terminal nor pass for a heading or a label.
"""

import re
from collections.abc import Iterable, Iterator
from posixpath import basename

from pipeline.findings.excerpts import Excerpt
from pipeline.findings.model import Change, Finding
from pipeline.findings.scales import P_LEVEL, confidence_to_anchor
from pipeline.findings.trackers.ticket import TrackerStatus
from pipeline.findings.walk.state import (
    Action,
    Choice,
    Route,
    Turn,
    Walk,
    WalkItem,
    available_action,
    is_unvalidated,
    plan,
    recommendations,
    refusals,
    routes,
)
from pipeline.handlers.questions import Option, Question
from pipeline.text import ELLIPSIS, plural, sanitize_block, sanitize_line, truncate

UNVALIDATED = " (not validated)"
DONE = {
    Action.APPLY: "applied",
    Action.DEFER: "deferred",
    Action.SKIP: "skipped",
    Action.ACKNOWLEDGE: "acknowledged",
}
_NO_FIX = "No concrete fix proposed; needs a decision."
_NO_SINK = "Defer unavailable on this platform — no durable tracker sink detected."
_NO_SINK_FOR_ROUTE = "Defer unavailable — no durable tracker sink detected on this platform."
_DOWNGRADED = "recommended Defer; downgraded to Skip — no tracker sink available."
_LABELS = {
    Action.APPLY: "Apply the proposed fix",
    Action.ACKNOWLEDGE: "Acknowledge — mark as reviewed",
    Action.SKIP: "Skip — don't apply, don't track",
    Turn.REST: "Apply the rest — this and all remaining findings, as recommended",
    Turn.PROCEED: "Proceed",
    Turn.CANCEL: "Cancel",
    Turn.FALLBACK: "Fall back to next sink",
    Turn.CONVERT: "Convert to Skip — record the failure",
    Route.EACH: "Review each finding one by one — accept the recommendation or choose another action",
    Route.ALL: "Apply the recommended action to every finding",
    Route.REPORT: "Report only — take no further action",
}
_SEED_LABELS = {
    Turn.REST: "LFG the rest — apply the agent's best judgment to this and remaining findings",
    Route.ALL: "LFG. Apply the agent's best-judgment action per finding",
}
_PURPOSES = {
    Route.ALL: "apply the plan above",
    Route.MUST: "apply the plan above",
    Route.FILE: "file the tickets above",
    Route.EACH: "resolve the remaining findings above",
}

_MAX_EARLIER = 2  # decisions in the block; the details have all of them
_MAX_PROSE = 2000  # characters of a paragraph
_MAX_TITLE = 120  # characters, of at most eight words
_MAX_WORDS = 8
_MAX_WIDTH = 80  # columns of a line in a plan
_LOW_CONFIDENCE = 50  # below it, a recommendation says so
_LINE_NUMBER = re.compile(
    r"\s+(?:on|at|in)\s+lines?\s+\d+(?:\s*[-–]\s*\d+)?\s*$|\s*\(lines?\s+\d+(?:\s*[-–]\s*\d+)?\)\s*$", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_MARKUP = re.compile(r"[#>*+\-=|~<]|```|___")
_LIST_NUMBER = re.compile(r"(\d+)[.)]")
_ESCAPED = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")


def ask_route(walk: Walk) -> Question:
    """Ask which route to take."""
    stem = f"What should the agent do with the remaining {len(walk.items)} findings?"
    if not walk.trackers.any_sink_available:
        stem = f"{stem}\n{_NO_SINK_FOR_ROUTE}"
    offered = [route for route in routes(walk) if route is not Route.MUST]
    return Question(stem, tuple(_option(walk, route, approves=route is Route.ALL) for route in offered))


def ask_about(walk: Walk, item: WalkItem) -> Question:
    """Ask what to do about one item. The last of many is not a single one: the rest can still be applied."""
    recommended = _recommended(walk, item)
    keys: list[Action | Turn] = [Action.ACKNOWLEDGE if item.advisory else Action.APPLY]
    keys += [Action.DEFER] if walk.trackers.any_sink_available else []
    keys += [Action.SKIP]
    keys += [Turn.REST] if len(walk.items) > 1 else []
    approved = Turn.REST if Turn.REST in keys else recommended
    options = tuple(_option(walk, key, recommended=key is recommended, approves=key is approved) for key in keys)
    return Question(_finding_stem(walk, item), options, block=_finding_block(walk, item), about=item.id)


def ask_tracker(walk: Walk) -> Question:
    """Ask whether the first ticket may go to a tracker that was not named."""
    return Question(f"This files a ticket on {walk.tracker}. Proceed?", _yes_or_no(walk))


def ask_failed(walk: Walk) -> Question:
    """Ask what to do instead of a ticket that could not be filed; none is given up while a tracker is left."""
    failure = walk.tickets[-1].failure.rstrip(".")
    stem = f"Defer failed: {walk.tracker} returned {failure}. How should the agent handle this finding?"
    keys = (Turn.RETRY, Turn.FALLBACK, Turn.CONVERT)
    return Question(stem, tuple(_option(walk, key, approves=key is Turn.FALLBACK) for key in keys))


def ask_plan(walk: Walk) -> Question:
    """Ask whether the plan for all remaining items may be carried out."""
    shown = _preview(walk)
    stem = f"The agent is about to {_PURPOSES[walk.route]}. Proceed?"
    return Question(stem, _yes_or_no(walk), plan=shown, details=f"```\n{shown}\n```")


def _yes_or_no(walk: Walk) -> tuple[Option, ...]:
    return _option(walk, Turn.PROCEED, approves=True), _option(walk, Turn.CANCEL)


def _option(walk: Walk, key: Action | Route | Turn, *, recommended: bool = False, approves: bool = False) -> Option:
    ticket = _ticket(walk.trackers)
    labels: dict[str, str] = {
        **{str(known): label for known, label in _LABELS.items()},
        Action.DEFER: f"Defer — file a {ticket}",
        Turn.RETRY: f"Retry on {walk.tracker}",
        Route.FILE: f"File {f'a {ticket}' if walk.trackers.named else 'an issue'} per finding without applying fixes",
    }
    if walk.seed_wording:
        labels |= {str(known): label for known, label in _SEED_LABELS.items()}
    return Option(str(key), labels[key], recommended=recommended, approves=approves)


def confirmation(item: WalkItem, choice: Choice) -> str:
    """Return one line that says what was done, and for which findings if there are several."""
    members = item.line.open_members
    also = f" For {', '.join(f'#{one.number}' for one in members)}." if len(members) > 1 else ""
    if choice.action is Action.DEFER:
        return f"→ Deferred. Ticket filed: {one_line(choice.ref, 400)}.{also}"
    lines = location(item.finding, all_lines=True)
    if choice.action is Action.APPLY and lines:
        return f"→ Applied. Fix staged at {lines}.{also}"
    return f"→ {DONE[choice.action].capitalize()}.{also}"


def title(finding: Finding) -> str:
    """Return what happens, in at most eight words and without the line."""
    text = one_line(finding.plain_title or finding.title, _MAX_TITLE)
    words = (_LINE_NUMBER.sub("", text) or text).rstrip(".").split()
    return " ".join(words) if len(words) <= _MAX_WORDS else f"{' '.join(words[:_MAX_WORDS])}{ELLIPSIS}"


def location(finding: Finding, *, all_lines: bool = False) -> str:
    """Return `path:line`, or all its lines; empty if it has no location."""
    where = finding.location
    if where is None:
        return ""
    path = one_line(where.path, 200)
    if where.start is None:
        return path
    return f"{path}:{where.lines if all_lines else where.start}"


def skip_reason(finding: Finding, impact: str) -> str:
    """Return why a finding may be skipped: what it is about, in one sentence, or how sure it is."""
    about = sentences(one_line(impact))
    return one_line(about[0], 100) if about else f"confidence {confidence_to_anchor(finding.confidence)}"


def one_line(text: str, limit: int = _MAX_PROSE) -> str:
    """Return a text from outside on one sanitized line of at most `limit` characters, ending at a whole word."""
    line = sanitize_line(text[: 4 * limit])
    if len(line) <= limit:
        return line
    line = line[: limit - 1]
    words, _, last = line.rpartition(" ")
    return f"{words if words and len(last) < 20 else line}{ELLIPSIS}"


def escape(line: str) -> str:
    """Return a line that starts no heading, list, quotation, label or code in markdown."""
    if number := _LIST_NUMBER.match(line):
        return f"{number[1]}\\{line[number.end(1) :]}"
    return f"\\{line}" if _MARKUP.match(line) else line


def read_markdown(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of our own markdown, each as heading, label, item, code or text, without its marks.

    Nothing in the text of a finding becomes a heading or a label: that was escaped.
    """
    code = False
    for line in text.split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield "code", line
        elif line.startswith("## "):
            yield "heading", line.removeprefix("## ")
        elif line.startswith("**") and line.endswith("**"):
            yield "label", line.strip("*")
        elif line.startswith("- "):
            yield "item", line.removeprefix("- ")
        else:
            yield "text", _ESCAPED.sub(r"\1", line)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text from outside, each on one sanitized line."""
    return [line for part in re.split(r"\n\s*\n", text[:20_000]) if (line := one_line(part))]


def sentences(line: str) -> list[str]:
    """Return the sentences of one line."""
    return [sentence for sentence in _SENTENCE_END.split(line) if sentence]


def _recommended(walk: Walk, item: WalkItem) -> Action:
    return available_action(item.recommended, item, walk.trackers)


def _ticket(trackers: TrackerStatus) -> str:
    return f"{trackers.named} ticket" if trackers.named else "ticket"


def _heading(walk: Walk, item: WalkItem, name: str) -> str:
    position = f"Finding {walk.items.index(item) + 1} of {len(walk.items)} — " if len(walk.items) > 1 else ""
    return f"{position}{item.level} {name}"


def _finding_stem(walk: Walk, item: WalkItem) -> str:
    name = title(item.finding)
    first = name.split(" ", 1)[0]
    if len(first) > 1 and first[1:] == first[1:].lower():  # capitalized only because it comes first
        name = name[:1].lower() + name[1:]
    no_sink = [] if walk.trackers.any_sink_available else [_NO_SINK]
    return "\n".join([f"{_heading(walk, item, name)}.", _action_phrase(walk, item), *no_sink])


def _action_phrase(walk: Walk, item: WalkItem) -> str:
    """Return what the recommended action does, as a question."""
    match _recommended(walk, item):
        case Action.APPLY:
            where = item.finding.location
            file = f" in {one_line(basename(where.path), 60)}" if where else ""
            return f"Apply the proposed fix{file}?"
        case Action.DEFER:
            return f"Defer and file a {_ticket(walk.trackers)}?"
        case Action.ACKNOWLEDGE:
            return "Acknowledge it as reviewed?"
        case Action.SKIP:
            return "Skip the fix and leave the finding open?"


def _conflict(walk: Walk, item: WalkItem) -> str:
    """Return which reviewers disagree, and a downgraded recommendation; empty if there is neither."""
    wanted = recommendations(item.line)
    disagree = len({finding.action for finding in wanted}) > 1
    parts = []
    if disagree:
        parts.append("; ".join(map(_recommendation, wanted)) + ".")
    if item.recommended is Action.DEFER and not walk.trackers.any_sink_available:
        parts.append(f"{'Stage 5' if walk.seed_wording else 'The review'} {_DOWNGRADED}")
    if disagree:
        parts.append(f"Agent's recommendation: {_recommended(walk, item).capitalize()}.")
    return " ".join(parts)


def _recommendation(finding: Finding) -> str:
    name = one_line(finding.reviewer, 60)
    doubt = " (low confidence)" if finding.confidence.value < _LOW_CONFIDENCE else ""
    return f"{name[:1].upper()}{name[1:]} recommends {finding.action.capitalize()}{doubt}"


def _finding_block(walk: Walk, item: WalkItem) -> str:
    same_as = f"may be the same as {', '.join(f'#{number}' for number in item.same_as)}" if item.same_as else ""
    where = " — ".join(part for part in (location(item.finding), same_as) if part)
    parts = [f"## {_heading(walk, item, title(item.finding))}", escape(where)]
    if item.line.decisions:
        parts.append(f"Earlier: {'; '.join(map(_earlier, item.line.decisions[-_MAX_EARLIER:]))}.")
    parts += [f"**{label}**\n\n{text}" for label, text in _sections(item) if text]
    parts.append(escape(_conflict(walk, item)))
    return "\n\n".join(part for part in parts if part)


def _earlier(change: Change) -> str:
    """Return what was decided before, when, and the ticket or the reason."""
    done = {str(action): word for action, word in (DONE | {Action.APPLY: "accepted"}).items()}
    about = one_line(change.ref or change.note, _MAX_TITLE).rstrip(".")
    text = f"{done.get(change.word, change.word)} on {change.at[:10]}"
    return one_line(f"{text}, {about}" if about else text, 2 * _MAX_TITLE)


def details(item: WalkItem, excerpts: Iterable[Excerpt]) -> str:
    """Return everything that is known about a finding as markdown, with the code that it is about."""
    finding = item.finding
    texts = [one.raw or one.quote for one in finding.evidence if one.raw or one.quote]
    tried = [
        f"- {one.word.replace('_', ' ')} by {one_line(one.who, 60)}: {one_line(one.note)}" for one in finding.claims
    ]
    sections = {
        "What's wrong": "\n\n".join(map(escape, paragraphs(item.impact))),
        "Whole fix": _code(item.with_fix.fix or "") if item.with_fix else "",
        "Why it works": "\n\n".join(map(escape, paragraphs(item.why_it_works))),
        "Evidence": "\n\n".join(map(_code, texts)),
        **{f"Code: {one_line(str(one.evidence), 200)}": _excerpt(one) for one in excerpts},
        "How to reproduce": _code(finding.reproduction) if finding.reproduction else "",
        "Recommendations": "\n".join(f"- {_recommendation(one)}" for one in recommendations(item.line)),
        "Attempts": "\n".join(tried),
        "Decisions": "\n".join(f"- {_earlier(change)}" for change in item.line.decisions),
    }
    shown = [f"**{label}**\n\n{text}" for label, text in sections.items() if text]
    return "\n\n".join([f"## #{item.line.number} {one_line(finding.title, 400)}", *shown])


def _excerpt(excerpt: Excerpt) -> str:
    lines = [f"{'>' if hit else ' '} {number:>4}  {text}" for number, text, hit in excerpt.lines]
    return "\n\n".join(filter(None, ("\n".join(["```", *lines, "```"]) if lines else "", excerpt.note)))


def _code(text: str) -> str:
    """Return a text from outside line by line as it was written, sanitized."""
    shown = sanitize_block(text[:_MAX_FIX].strip("\n").expandtabs(4)).replace("```", "'''")  # ends no fence
    return f"```\n{shown}\n```"


def _sections(item: WalkItem) -> Iterator[tuple[str, str]]:
    finding, with_fix = item.finding, item.with_fix
    fix = "" if item.advisory else _NO_FIX
    if with_fix:
        fix = present_fix(with_fix.fix or "", location(with_fix), item.pointer)
    if item.impact:
        yield "What's wrong", "\n\n".join(map(escape, paragraphs(item.impact)))
    yield "Proposed fix", fix
    if item.impact:
        yield "Why it works", escape(" ".join(sentences(one_line(item.why_it_works))[:3]))
    if len(item.line.members) > 1:
        members = [_member(finding, ""), *(_member(other, other.impact) for other in item.line.others)]
        yield f"Reported by {plural(len(item.line.reviewers), 'reviewer')}", "\n".join(members)


def _member(finding: Finding, impact: str) -> str:
    """Return a member of a line of work, in its reviewer's own words as far as they are not shown above."""
    about = f": {one_line(impact, 300)}" if impact else ""
    closed = "" if finding.state.is_open else f" ({finding.state.replace('_', ' ')})"
    named = f"- {one_line(finding.reviewer, 60)}, {P_LEVEL[finding.severity]}"
    return f"{named} {one_line(finding.title, _MAX_TITLE)}{closed}{about}"


def _preview(walk: Walk) -> str:
    """Return the plan: a heading, then the findings by what is to be done; empty groups are left out."""
    planned, dropped = plan(walk), refusals(walk)
    items = {action: [item for item, wanted in planned if wanted is action] for action in Action}
    no_sink = not walk.trackers.any_sink_available
    downgraded = [item for item in items[Action.SKIP] if no_sink and item.recommended is Action.DEFER]
    groups = {
        "Applying": items[Action.APPLY],
        f"Filing {_ticket(walk.trackers)}s": items[Action.DEFER],
        "Skipping": [item for item in items[Action.SKIP] if item not in downgraded],
        "Skipping — defer sink unavailable": downgraded,
        "Acknowledging": items[Action.ACKNOWLEDGE],
        "Dropping — refused by the validator": [item for item in walk.remaining if item.id in dropped],
    }
    texts = [
        "\n".join([f"{name} ({len(found)}):", *(_plan_line(walk, item) for item in found)])
        for name, found in groups.items()
        if found
    ]
    remaining = "remaining " if walk.route is Route.EACH else ""
    count = plural(len(planned), f"{remaining}finding")
    if walk.route is Route.FILE:
        return "\n\n".join([f"File plan — {count} as {_ticket(walk.trackers)}s:", *texts])
    decided = f" ({len(walk.choices)} already decided)" if walk.route is Route.EACH else ""
    tracker = f" (tracker: {walk.trackers.named})" if walk.trackers.named and items[Action.DEFER] else ""
    return "\n\n".join([f"{'LFG plan' if walk.seed_wording else 'Plan'} — {count}{decided}{tracker}:", *texts])


def _plan_line(walk: Walk, item: WalkItem) -> str:
    where, flag = location(item.finding), UNVALIDATED if is_unvalidated(walk, item) else ""
    line = f"  [{item.level}] {f'{where} — ' if where else ''}{title(item.finding)}"
    return truncate(line, _MAX_WIDTH - len(flag)) + flag


_MAX_FIX = 20_000  # characters that are looked at
_MAX_SENTENCES = 3
_MAX_SPANS = 2  # in a sentence
_MAX_SPAN = 40  # characters
_MAX_SPAN_WORDS = 4
_MAX_CODE = 5  # lines
_MAX_SUMMARY = 200  # characters
_CODE_BLOCK = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ \t]*(?:```|~~~)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_SPAN = re.compile(r"`([^`]*)`")
_DIFF = re.compile(r"^(?:@@ .* @@|diff --git |--- a/|\+\+\+ b/)", re.MULTILINE)
_CHANGED_LINE = re.compile(r"^(?:\+|-\S)", re.MULTILINE)
_STATEMENT = re.compile(r"[;{}]|\$\{|=>|\b(?:if|for|while|return|throw|raise|await|const|let|var|def)\b.*\s")


def present_fix(fix: str, where: str, pointer: str) -> str:
    """Return a proposed fix as markdown that says what it achieves, not how it is typed.

    A fix that breaks the rules for prose becomes its first sentence, its location and a pointer to the whole of it.
    """
    prose = _CODE_BLOCK.sub("\n\n", fix[:_MAX_FIX])
    parts = [sentence for paragraph in paragraphs(prose) for sentence in sentences(paragraph)]
    short = len(fix) <= _MAX_FIX and len(parts) <= _MAX_SENTENCES
    code_is_short = all(map(_is_short_code, _CODE_BLOCK.finditer(fix)))
    ticks = re.findall("`+", prose)
    paired = len(ticks) % 2 == 0 and all(len(run) == 1 for run in ticks)  # and not nested
    if short and code_is_short and paired and not _DIFF.search(prose) and all(map(_has_few_spans, parts)):
        return "\n\n".join(_paragraphs_and_code(fix))
    plain = paragraphs(_DIFF.split(prose)[0].replace("`", ""))
    summary = escape(one_line(sentences(plain[0])[0], _MAX_SUMMARY)) if plain else ""
    summary = summary or "The fix is given as code."
    shown = " ".join(filter(None, (summary, where and f"At {where}.")))
    return "\n\n".join(filter(None, (shown, f"Full fix: {pointer}")))


def _is_short_code(block: re.Match[str]) -> bool:
    """Whether a code block is a few new lines and not a diff."""
    diff = block["language"] == "diff" or _DIFF.search(block["code"]) or _CHANGED_LINE.search(block["code"])
    return not diff and block["code"].count("\n") <= _MAX_CODE


def _has_few_spans(sentence: str) -> bool:
    """Whether a sentence has at most two code spans, each a name or a short phrase with space around it."""
    spans = list(_SPAN.finditer(sentence))
    before = [sentence[: span.start()][-1:] for span in spans]
    after = [sentence[span.end() :][:1] for span in spans]
    spaced = all(one in ("", " ", "(") for one in before) and all(one in ("", *" .,;:!?)") for one in after)
    codes = [span[1] for span in spans]
    short = all(len(code) <= _MAX_SPAN and len(code.split()) <= _MAX_SPAN_WORDS for code in codes)
    return len(spans) <= _MAX_SPANS and spaced and short and not any(map(_STATEMENT.search, codes))


def _paragraphs_and_code(fix: str) -> Iterator[str]:
    """The paragraphs of a fix, and its code as code."""
    start = 0
    for block in _CODE_BLOCK.finditer(fix):
        yield from map(escape, paragraphs(fix[start : block.start()]))
        code = [" " * (len(line) - len(line.lstrip(" "))) + one_line(line, 200) for line in block["code"].splitlines()]
        yield "\n".join(["```", *code, "```"])
        start = block.end()
    yield from map(escape, paragraphs(fix[start:]))
