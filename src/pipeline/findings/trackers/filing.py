"""Tickets for many findings with nobody to ask: each goes to the first tracker that takes it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.findings.model import Finding
from pipeline.findings.trackers.chain import Chain
from pipeline.findings.trackers.ticket import unfit
from pipeline.findings.walk.sinks import Failed, Filed


@dataclass(frozen=True, slots=True)
class Ticketed:
    """A finding with its ticket, to be recorded by whoever asked for it."""

    finding: Finding
    tracker: str
    url: str


@dataclass(frozen=True, slots=True)
class Untaken:
    """A finding that no tracker took: the last that was asked, and what each of them said."""

    finding: Finding
    tracker: str
    reason: str


@dataclass(slots=True)
class Filing:
    """What became of each finding; every one is in exactly one list."""

    filed: list[Ticketed] = field(default_factory=list)
    failed: list[Untaken] = field(default_factory=list)
    no_sink: list[Finding] = field(default_factory=list)

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """The lists for a program."""
        return {
            "filed": [{"finding_id": one.finding.id, "tracker": one.tracker, "url": one.url} for one in self.filed],
            "failed": [
                {"finding_id": one.finding.id, "tracker": one.tracker, "reason": one.reason} for one in self.failed
            ],
            "no_sink": [_unfiled(finding) for finding in self.no_sink],
        }


def file_all(findings: Iterable[Finding], chain: Chain) -> Filing:
    """Make a ticket for each finding. Where there are none no tracker is looked for."""
    done = Filing()
    for finding in findings:
        if reason := unfit(finding):
            done.failed.append(Untaken(finding, "", reason))
        elif not chain.sinks().any_sink_available:
            done.no_sink.append(finding)
        else:
            _file(finding, chain, done)
    return done


def _file(finding: Finding, chain: Chain, done: Filing) -> None:
    refusals: list[str] = []
    while True:
        tracker = chain.name
        match chain.file(finding):
            case Filed(url):
                done.filed.append(Ticketed(finding, tracker, url))
                return
            case Failed(reason):
                refusals.append(f"{tracker}: {reason}")
                if not chain.fall_back(reason):
                    done.failed.append(Untaken(finding, tracker, "; ".join(refusals)))
                    return


def _unfiled(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "finding_id": finding.id,
        "title": finding.title,
        "severity": str(finding.severity),
        "file": place.path if place else None,
        "line": place.start if place else None,
    }
