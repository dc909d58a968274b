"""The items of a report by how they could be read."""

from pipeline.findings.model import Draft, Report


def readable(report: Report) -> list[Draft]:
    """The items that report a defect."""
    return [draft for draft in report.drafts if not (draft.unreadable or draft.harmless)]


def unreadable(report: Report) -> list[Draft]:
    """The items that cannot be read."""
    return [draft for draft in report.drafts if draft.unreadable]


def harmless(report: Report) -> list[Draft]:
    """The items that report a success."""
    return [draft for draft in report.drafts if draft.harmless]
