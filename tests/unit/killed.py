"""A program that writes views and is killed at each call to the system in turn; what is left must be whole.

It prints how many deaths it died. It runs by itself, since a test's own process has threads and must not fork.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.findings.formats import verdict
from pipeline.findings.model import Finding
from pipeline.findings.verdicts import verdicts
from pipeline.findings.views.records import RecordDirectory
from pipeline.findings.views.verdict_file import ABORT, VerdictFile

AT = "2026-06-01T00:00:00Z"
CALLS = ("open", "fsync", "link", "mkdir", "replace", "rename", "unlink", "close", "sync")


def a_finding(number: int, **fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": f"fnd_{number:08x}",
        "signature": f"sha256:{number}",
        "title": "t",
        "category": "bug",
        "severity": "high",
        "confidence": {"value": 75},
        "locations": [{"path": f"{number}.py", "start": 1}],
        "pass_id": "REV-1-abc",
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding.model_validate(known | fields)


def die_at(number: int) -> None:
    """Be killed at the n-th call from now on."""
    left = [number]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return dying

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


def killed(number: int, write: Callable[[], None]) -> bool:
    """Write in a process that dies at its n-th call; whether it did."""
    child = os.fork()
    if child == 0:
        die_at(number)
        write()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def whole(folder: Path) -> dict[str, Any]:
    """The files with a name, each of them sound."""
    named = (path for path in folder.rglob("*.json") if not path.name.startswith("."))
    return {str(path.relative_to(folder)): json.loads(path.read_bytes()) for path in named}


def workspace(root: Path) -> int:
    """Killed while findings and a pass are written over older ones."""
    deaths = 0
    while True:
        place = root / str(deaths)
        (place / ".wystack").mkdir(parents=True)
        records = RecordDirectory(place)
        records.write_findings([a_finding(number) for number in range(4)], at=AT)
        passed = {"id": "REV-2-abc", "finding_ids": []}

        def write(records: RecordDirectory = records, passed: dict[str, Any] = passed) -> None:
            records.write_findings(
                [a_finding(number, title="new", history=[{"at": AT, "what": "edited"}]) for number in range(6)], at=AT
            )
            records.write_pass(passed)

        if not killed(deaths + 1, write):
            return deaths
        for file in whole(place).values():
            assert file.get("title", "t") in ("t", "new"), file
        write()
        there = whole(place)
        assert sum(file.get("title") == "new" for file in there.values()) == 6, there
        assert [name for name in there if "reviews" in name] == [".wystack/reviews/REV-2-abc.json"], there
        deaths += 1


def document(review_id: str, found: list[Finding]) -> dict[str, Any]:
    """A full review of some findings."""
    return verdict.get(
        found,
        review_id=review_id,
        timestamp=AT,
        scope="changeset",
        target="HEAD",
        mode="full",
        report_path="r.md",
        verdicts=verdicts(found),
    )


def verdict_file(root: Path) -> int:
    """Killed while a full review takes the place of an aborted one."""
    deaths = 0
    first = document("aaaaaaaa", [a_finding(1, severity="critical", system_breaking=True)])
    second = document("bbbbbbbb", [a_finding(2)])
    while True:
        place = root / str(deaths)
        place.mkdir()
        file = VerdictFile(place)
        file.write(first)

        def write(file: VerdictFile = file) -> None:
            file.write(second)

        if not killed(deaths + 1, write):
            return deaths
        latest = whole(place)[".code-review/review-latest.json"]
        assert latest in (first, second), latest
        assert latest["verdict"] != "ABORT" or (place / ".code-review" / ABORT).exists()
        write()
        there = whole(place)
        assert there == {".code-review/review-latest.json": second, ".code-review/review-aaaaaaaa.json": first}, there
        assert not (place / ".code-review" / ABORT).exists()
        deaths += 1


if __name__ == "__main__":
    print({"workspace": workspace, "verdict": verdict_file}[sys.argv[1]](Path(sys.argv[2])))  # noqa: T201 - its answer
