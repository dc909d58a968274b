"""What a reviewer wrote beyond a finding's short form. It is found by place and title; what nobody wrote is a gap."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.claims import Claim
from pipeline.findings.codecs import review
from pipeline.findings.model import Finding
from pipeline.findings.signature import norm_title

_NEAR = 3  # lines by which two tellings of one defect may differ
_LARGEST = 16 * 1024 * 1024  # bytes of a return
_WHY = "why_it_works"


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole return of one reviewer, and where it lies."""

    path: str
    claims: tuple[Claim, ...]


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
        why=_why(finding.ext) or (_why(first.ext) if first else ""),
        pointer=f"{path} → findings[].suggested_fix" if path else f"awf findings show {finding.number or finding.id}",
        missing=() if impact else reviewers(finding),
    )


def reviewers(finding: Finding) -> tuple[str, ...]:
    """Who reported a finding, in the order of their votes."""
    return tuple(dict.fromkeys(vote.reviewer for vote in finding.votes)) or finding.sources


def _found(finding: Finding, artifacts: Mapping[str, Artifact]) -> Iterator[tuple[str, Claim]]:
    for name in reviewers(finding):
        artifact = artifacts.get(name)
        if artifact is None:
            continue
        titles = {norm_title(vote.title) for vote in finding.votes if vote.reviewer == name} | {
            norm_title(finding.title)
        }
        yield from ((artifact.path, claim) for claim in artifact.claims if _same(finding, claim, titles))


def _same(finding: Finding, claim: Claim, titles: set[str]) -> bool:
    place, other = finding.location, claim.locations[0] if claim.locations else None
    if place is None or other is None or place.path != other.path:
        return False
    near = abs((place.start or 0) - (other.start or 0)) <= _NEAR
    return near and norm_title(claim.title) in titles


def _why(ext: Mapping[str, object]) -> str:
    unknown = ext.get(review.FORMAT)
    told = unknown.get(_WHY) if isinstance(unknown, Mapping) else None
    return told if isinstance(told, str) else ""
