"""The drafts of a pass: cleaned, checked against the files, each defect of a reviewer once, and with fingerprints."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline.findings.evidence import RepositoryFiles, check_evidence, named_places
from pipeline.findings.fingerprints import add_fingerprints, raw_signature, signature
from pipeline.findings.model import Draft, Evidence, Report
from pipeline.findings.normalize import MAX_PARTS, normalize, title_key

NEAR = 3  # lines by which a reviewer may be off when it names a defect twice


@dataclass(frozen=True, slots=True)
class Prepared:
    """The drafts of a pass, and for each item that repeats one of them the index of that draft."""

    drafts: tuple[Draft, ...]
    repeated: tuple[tuple[Draft, int], ...]  # the worse of two equal items is the draft


def prepare(reports: Iterable[Report], files: RepositoryFiles) -> Prepared:
    """Return the drafts of all reports of a pass. Reads the repository, decides nothing."""
    items = [item for report in reports for item in normalize(report, files)]
    items.sort(key=lambda item: next((place.path for place in named_places(item)), ""))  # so that a file is read once
    groups = _group_equal([check_evidence(item, files) for item in items])
    drafts = _number_equal_signatures([_sign(_unite(group)) for group in groups])
    repeated = ((item, index) for index, group in enumerate(groups) for item in group[1:])
    return Prepared(tuple(add_fingerprints(drafts, files)), tuple(repeated))


def _group_equal(items: Sequence[Draft]) -> list[list[Draft]]:
    """Return the items in groups of one reviewer's defect, the worst first in each.

    A reviewer names a defect twice if it gives one title at most three lines from the first place. Distance is never
    added up, and a tool that names two lines means two defects.
    """
    groups: list[list[Draft]] = []
    nearby = defaultdict[Hashable, list[list[Draft]]](list)
    for item in sorted(items, key=_order):
        key = _title_and_place(item)
        into = next((group for group in reversed(nearby[key]) if _is_close(group[0], item)), None)
        if into is None:
            into = []
            groups.append(into)
            nearby[key].append(into)
        into.append(item)
    for group in groups:
        group.sort(key=lambda item: (item.severity.rank, -item.confidence.value, _order(item)))
    return groups


def _title_and_place(item: Draft) -> Hashable:
    """Return what the items of one defect share: the file and the title; without a line, also the quoted words."""
    if item.unreadable:
        return item.reviewer, item.impact
    path, title = item.location.path if item.location else "", title_key(item.title)
    if item.location and item.location.start is not None:
        return item.reviewer, path, title
    symbol = item.location.symbol if item.location else ""
    quotes = (evidence.quote for evidence in item.evidence)
    return item.reviewer, path, title, symbol, next(filter(None, quotes), "")


def _is_close(first: Draft, item: Draft) -> bool:
    return abs(_start(first) - _start(item)) <= (0 if item.by_tool else NEAR)


def _start(item: Draft) -> int:
    return (item.location.start if item.location else None) or 0


def _order(item: Draft) -> tuple[str, int, str, str, str, str]:
    """Return an order that does not depend on who answered first."""
    path = item.location.path if item.location else ""
    return path, _start(item), item.title, item.reviewer, item.input_id, item.impact


def _unite(group: Sequence[Draft]) -> Draft:
    """Return the worst item of a group with what all of them say, and their places and evidence, each once."""
    impacts = dict.fromkeys(item.impact for item in group if item.impact)
    locations = dict.fromkeys(place for item in group for place in item.locations)
    evidence = dict.fromkeys(one for item in group for one in item.evidence)
    return replace(
        group[0],
        impact="\n\n".join([*impacts][:MAX_PARTS]),
        locations=tuple(locations)[:MAX_PARTS],
        evidence=tuple(evidence)[:MAX_PARTS],
    )


def _sign(draft: Draft) -> Draft:
    if draft.unreadable:
        return replace(draft, signature=raw_signature(draft.reviewer, draft.impact))
    return replace(draft, signature=signature(draft.category, draft.evidence, draft.title))


def _number_equal_signatures(drafts: Sequence[Draft]) -> list[Draft]:
    """Return drafts with signatures of their own: a reviewer's equal ones are counted by line."""
    equal = defaultdict[tuple[str, str], list[int]](list)
    for index, draft in enumerate(drafts):
        equal[draft.reviewer, draft.signature].append(index)
    done = list(drafts)
    for indices in equal.values():
        indices.sort(key=lambda index: (_start(drafts[index]), drafts[index].input_id))
        for nth, index in enumerate(indices[1:], 1):
            draft = drafts[index]
            evidence = (*draft.evidence, Evidence(path=draft.location.path if draft.location else ""))
            done[index] = replace(draft, signature=signature(draft.category, evidence, draft.title, nth=nth))
    return done
