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

from pipeline.findings.events import FieldsEdited, FindingRaised, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, PassId
from pipeline.findings.reviews import review_id
from pipeline.findings.views.records import RecordDirectory
from pipeline.findings.views.stamps import Stamps
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


def ledger_of(number: int, *found: Finding) -> tuple[Ledger, Pass]:
    """A pass that found this."""
    passed = Pass(id=PassId(f"REV-{number}-abc"), started_at=AT)
    raised = [FindingRaised(at=AT, finding=finding) for finding in found]
    return Ledger([PassRecorded(at=AT, assessment=passed), *raised]), passed


def workspace(root: Path) -> int:
    """Killed while findings and a pass are written over older ones."""
    deaths = 0
    while True:
        place = root / str(deaths)
        (place / ".wystack").mkdir(parents=True)
        (place / "store").mkdir()
        old, _ = ledger_of(1, *(a_finding(number) for number in range(4)))
        new, _ = ledger_of(1, *(a_finding(number) for number in range(6)))
        for number in range(6):
            id = FindingId(f"fnd_{number:08x}")
            new.apply(FieldsEdited(at="2026-06-02T00:00:00Z", id=id, by="user", changes={"title": "new"}))

        def write(ledger: Ledger = new, place: Path = place) -> None:
            stamps = Stamps(place / "store", place)
            records = RecordDirectory(place, stamps)
            records.write_findings(ledger, AT, "file")
            stamps.save()
            records.write_pass({"id": f"REV-{len(ledger.findings)}-abc", "finding_ids": []})

        write(old)
        if not killed(deaths + 1, write):
            return deaths
        for file in whole(place / ".wystack").values():
            assert file.get("title", "t") in ("t", "new"), file
        edits = RecordDirectory(place, Stamps(place / "store", place)).read_edits(new, AT, "file")
        assert (edits.events, edits.notes, edits.problems) == ((), (), ()), edits
        write()
        there = whole(place / ".wystack")
        assert sum(file.get("title") == "new" for file in there.values()) == 6, there
        passes = sorted(name for name in there if "reviews" in name)
        assert passes == ["reviews/REV-4-abc.json", "reviews/REV-6-abc.json"], there
        deaths += 1


def verdict_file(root: Path) -> int:
    """Killed while a full review takes the place of an aborted one."""
    deaths = 0
    first = ledger_of(1, a_finding(1, severity="critical", system_breaking=True))
    second = ledger_of(2, a_finding(2))
    old, new = (review_id(passed) for _, passed in (first, second))
    while True:
        place = root / str(deaths)
        (place / "store").mkdir(parents=True)

        def write(review: tuple[Ledger, Pass] = second, place: Path = place) -> None:
            stamps = Stamps(place / "store", place)
            VerdictFile(place, stamps).write(*review, AT)
            stamps.save()

        write(first)
        if not killed(deaths + 1, write):
            return deaths
        latest = whole(place / ".code-review")["review-latest.json"]
        assert latest["reviewId"] in (old, new), latest
        assert latest["verdict"] != "ABORT" or (place / ".code-review" / ABORT).exists()
        edits = VerdictFile(place, Stamps(place / "store", place)).read_edits(second[0], AT, "file")
        assert (edits.events, edits.notes, edits.problems) == ((), (), ()), edits
        write()
        there = {name: one["reviewId"] for name, one in whole(place / ".code-review").items()}
        assert there == {"review-latest.json": new, f"review-{old}.json": old}, there
        assert not (place / ".code-review" / ABORT).exists()
        deaths += 1


if __name__ == "__main__":
    print({"workspace": workspace, "verdict": verdict_file}[sys.argv[1]](Path(sys.argv[2])))  # noqa: T201 - its answer
