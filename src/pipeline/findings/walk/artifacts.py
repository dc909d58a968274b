"""The whole returns of reviewers, as files of a directory. One that is missing or unreadable is a gap, not an error."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.findings.codecs import review
from pipeline.findings.model import Finding
from pipeline.findings.walk.detail import Artifact, reviewers

_LARGEST = 16 * 1024 * 1024  # bytes


def read_artifacts(directory: Path, findings: Iterable[Finding]) -> dict[str, Artifact]:
    """The returns of those who reported some findings, by reviewer."""
    names = dict.fromkeys(name for finding in findings for name in reviewers(finding))
    read = {name: _read(directory / f"{name}.json", name) for name in names if Path(name).name == name}
    return {name: artifact for name, artifact in read.items() if artifact}


def _read(path: Path, reviewer: str) -> Artifact | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except (OSError, ValueError):  # it was not kept, or no file can have that name: the report counts what is missing
        return None
    return Artifact(str(path), review.decode(content, reviewer=reviewer).claims)
