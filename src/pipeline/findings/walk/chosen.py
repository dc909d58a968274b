"""What a fixer is given after a triage: the findings that were chosen, and in one line what was not."""

from collections.abc import Iterable, Iterator, Sequence

from pipeline.engine.context import Context
from pipeline.findings.keys import ReviewKey
from pipeline.findings.model import Finding
from pipeline.findings.walk.wording import counted, flat
from pipeline.findings.worklist import worklist

_NAMED = 30  # findings and stages that are named one by one


def chosen_worklist(findings: Sequence[Finding], context: Context, reported: Iterable[str], room: int) -> str:
    """The chosen among some outstanding findings; of the others only those that this run `reported` are mentioned."""
    wanted, mentioned = set(context.list_at(ReviewKey.CHOSEN)), set(reported)
    chosen = [finding for finding in findings if finding.id in wanted]
    others = [finding for finding in findings if finding.id in mentioned - wanted]
    said = f"Chosen, for the proposed fix to be applied: {_numbers(chosen) or 'nothing that is still open'}."
    left = _not_chosen(others, list(_texts(context)))
    whole = worklist(chosen, room - len(said) - len(left) - 4)
    return "\n\n".join(part for part in (whole, said, left) if part)


def _not_chosen(findings: Sequence[Finding], stages: Sequence[str]) -> str:
    reports = [f"what {', '.join(stages)} reported"] if stages else []
    parts = ([_numbers(findings)] if findings else []) + reports
    return f"Not chosen, and no part of this task: {', and '.join(parts)}." if parts else ""


def _numbers(findings: Sequence[Finding]) -> str:
    named = [f"#{finding.number}" for finding in findings[:_NAMED]]
    more = len(findings) - len(named)
    return ", ".join(named) + (f" and {counted(more, 'finding')} more" if more else "")


def _texts(context: Context) -> Iterator[str]:
    """The stages whose reports are texts: nobody can be asked about those one by one."""
    reports = [one for one in context.list_at(ReviewKey.REPORTS) if isinstance(one, dict) and not one.get("findingIds")]
    names = dict.fromkeys(flat(str(one.get("stageId", "")), 80) for one in reports)
    return iter([name for name in names if name][:_NAMED])
