"""Files that were renamed where git cannot say so: nobody reports the old name, and its lines are all in one other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.findings.identity.anchors import Anchor

_LEAST = 3  # lines that no other file has, known from the old file and found in the new one


def renamed(known: Mapping[int, Anchor], drafts: Iterable[Anchor]) -> dict[int, Anchor]:
    """Known findings, those of a renamed file under its new name."""
    drafts = tuple(drafts)
    reported = {draft.path for draft in drafts}
    lost = [one for one in known.values() if not one.mapped and one.path not in reported]
    names = _names(_owners(lost), _owners(drafts)) if lost else {}
    return {
        at: replace(one, path=names[one.path]) if not one.mapped and one.path in names else one
        for at, one in known.items()
    }


def _owners(anchors: Iterable[Anchor]) -> dict[str, str]:
    """The file of each line that only one file has."""
    files = defaultdict[str, set[str]](set)
    for one in anchors:
        for line in one.window:
            files[line].add(one.path)
    return {line: next(iter(paths)) for line, paths in files.items() if len(paths) == 1}


def _names(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Old names to new ones, where more than half of an old file's lines that are found again are in one file."""
    votes = defaultdict[str, Counter[str]](Counter)
    for line, path in old.items():
        if line in new:
            votes[path][new[line]] += 1
    best = {path: found.most_common(1)[0] for path, found in votes.items()}
    return {
        path: name for path, (name, count) in best.items() if count >= _LEAST and 2 * count > sum(votes[path].values())
    }
