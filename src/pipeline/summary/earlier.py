"""The earlier reports of a stage that still fails, in one line."""

from collections.abc import Iterable, Sequence

from pipeline.summary.fence import cut, flat
from pipeline.summary.outstanding import Group

_RANGES = 8  # of visits that are spelt out
_REASONS = 5
_REASON = 160


def earlier_line(group: Group, most: int) -> str:
    """When a stage failed before and why, each reason once; nothing when it did not."""
    if not group.earlier:
        return ""
    numbers = {report.iteration for report in group.earlier if report.iteration is not None}
    when = f"in {visits(numbers)}" if numbers else "before"
    if group.before:
        when += f" and {group.before:,} times before"
    return cut(f"Also failed {when}: {_reasons(group)}", most)


def visits(numbers: Iterable[int]) -> str:
    """Numbers of visits in words: `visit 2`, `visits 2 and 3`, `visits 1 to 40`, `visits 1, 3 and 5 to 7`."""
    ranges = _ranges(sorted(set(numbers)))
    words = [word for first, last in ranges[-_RANGES:] for word in _range(first, last)]
    if len(ranges) > _RANGES:
        words.insert(0, f"{ranges[0][0]}")
        words.insert(1, "...")
    if len(words) == 1:
        return f"visit {words[0]}" if words[0].isdigit() else f"visits {words[0]}"
    return f"visits {', '.join(words[:-1])} and {words[-1]}"


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _range(first: int, last: int) -> list[str]:
    if last - first > 1:
        return [f"{first} to {last}"]
    return [str(number) for number in range(first, last + 1)]


def _reasons(group: Group) -> str:
    """The latest reasons first; the one the newest report gives is not repeated."""
    reasons = dict.fromkeys(report.reason.strip() for report in reversed(group.earlier))
    same = ["same reason"] if group.newest.reason.strip() in reasons else []
    others = [reason for reason in reasons if reason and reason != group.newest.reason.strip()]
    words = same + [flat(reason, _REASON) for reason in others[:_REASONS]]
    if len(others) > _REASONS:
        words.append(f"and {len(others) - _REASONS:,} more reasons")
    return "; ".join(words) or "no reason given"
