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

from pipeline.findings.events import FindingChanged, FindingRaised, Pass, PassRecorded
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Change, Finding, FindingId, FindingState, PassId, What
from pipeline.findings.reviews import review
from pipeline.findings.views.records import RecordDirectory
from pipeline.findings.views.stamps import Copies
from pipeline.findings.views.verdict_file import ABORT, VerdictFile

AT, LATER = "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"
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
        "reviewer": "qa",
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


def killed(number: int, write: Callable[[], object]) -> bool:
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
    passed = Pass(id=PassId(f"REV-{number}-abc"), started_at=AT, review=f"{number:08x}")
    raised = [FindingRaised(at=AT, finding=finding) for finding in found]
    return Ledger([PassRecorded(at=AT, assessment=passed), *raised]), passed


def workspace(root: Path) -> int:
    """Killed while findings and a pass are written over older ones."""
    deaths = 0
    while True:
        place = root / str(deaths)
        (place / ".wystack").mkdir(parents=True)
        (place / "store").mkdir()
        old = ledger_of(4, *(a_finding(number) for number in range(4)))
        new = ledger_of(6, *(a_finding(number) for number in range(6)))
        again = Change(at=LATER, what=What.SEEN, who="qa", by=Actor.ORCHESTRATOR)
        for number in range(6):
            id = FindingId(f"fnd_{number:08x}")
            new[0].apply(FindingChanged(id=id, change=again, fields={"title": "new"}))

        def write(known: tuple[Ledger, Pass] = new, place: Path = place) -> ViewEdits:
            ledger, passed = known
            records = RecordDirectory(place, place / "store")
            edits = records.read_edits(ledger, LATER, "file")
            copies = Copies(place / "store", place)
            assert not copies.find_edited()
            copies.restore()
            if records.lacks(passed):
                records.write_pass(review(ledger, passed), passed)
            records.write_findings(ledger)
            return edits

        write(old)
        if not killed(deaths + 1, write):
            return deaths
        for file in whole(place / ".wystack").values():
            assert file.get("title", "t") in ("t", "new"), file
        assert write() == ViewEdits()
        there = whole(place / ".wystack")
        assert sum(file.get("title") == "new" for file in there.values()) == 6, there
        passes = sorted(name for name in there if "reviews" in name)
        assert passes == ["reviews/REV-4-abc.json", "reviews/REV-6-abc.json"], there
        deaths += 1


def verdict_file(root: Path) -> int:
    """Killed while a full review takes the place of an aborted one."""
    deaths = 0
    first = ledger_of(1, a_finding(1, severity="critical", system_breaking=True))
    second = first[0].copy(), Pass(id=PassId("REV-2-abc"), started_at=LATER, review="00000002")
    fixed = Change(at=LATER, what=What.TRIAGE, who="anna", by=Actor.USER, state=FindingState.VERIFIED_FIXED)
    for event in (
        FindingChanged(id=FindingId("fnd_00000001"), change=fixed),
        PassRecorded(at=LATER, assessment=second[1]),
        FindingRaised(at=LATER, finding=a_finding(2, pass_id=second[1].id)),
    ):
        second[0].apply(event)
    old, new = (passed.review for _, passed in (first, second))
    while True:
        place = root / str(deaths)
        (place / "store").mkdir(parents=True)

        def write(known: tuple[Ledger, Pass] = second, place: Path = place) -> ViewEdits:
            verdict = VerdictFile(place, place / "store")
            edits = verdict.read_edits(known[0], LATER, "file")
            verdict.write(known[0])
            return edits

        write(first)
        if not killed(deaths + 1, write):
            return deaths
        latest = whole(place / ".code-review")["review-latest.json"]
        assert latest["reviewId"] in (old, new), latest
        assert latest["verdict"] != "ABORT" or (place / ".code-review" / ABORT).exists()
        assert write() == ViewEdits()
        there = {name: one["reviewId"] for name, one in whole(place / ".code-review").items()}
        assert there == {"review-latest.json": new, f"review-{old}.json": old}, there
        assert not (place / ".code-review" / ABORT).exists()
        deaths += 1


if __name__ == "__main__":
    print({"workspace": workspace, "verdict": verdict_file}[sys.argv[1]](Path(sys.argv[2])))  # noqa: T201 - its answer
