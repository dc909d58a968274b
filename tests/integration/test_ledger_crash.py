"""`kill -9` at any instant of a run whose findings code can read: its ledger and files are as if nothing had happened.

    python test_ledger_crash.py SCENARIO records|fresh WORKDIR

runs a scenario in forks of this process, as the laboratory of crashes does, and prints every difference from a run that
nobody disturbed. The project has a workspace for records, or nothing that speaks of findings. AWF_CRASH_MOMENTS sets
the number of deaths at random moments, and has every scenario tried in both projects.
"""

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.journal.sqlite import SqliteJournal

if TYPE_CHECKING or __name__ != "__main__":
    from tests.integration.crash import lab
else:  # as a script, beside which the laboratory is
    from crash import lab

CODE = (
    "import os\n\n\ndef load(path):\n    handle = open(path)\n    return handle.read()\n\n\nprint(load(os.devnull))\n"
)
WORKFLOW = r"""workflow "Crash" {
  version 2
  start "scan"
  settings { max_visits 4; }
  stage "scan" kind="tool" findings="sarif" command="cat scan.$AWF_VISIT.sarif"
  stage "reviews" kind="parallel" { branch "one"; branch "two"; }
  stage "one" kind="llm" auto_status=true prompt="Review it"
  stage "two" kind="llm" auto_status=true prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix it"
  stage "edit" kind="tool" command="sed -i -f edit.sed .code-review/review-latest.json"
  stage "exit" kind="exit"
  transition from="scan" to="reviews" when="outcome(\"scan\") == \"success\""
  transition from="scan" to="reviews" when="outcome(\"scan\") != \"success\""
  transition from="reviews" to="gate"
  transition from="fix" to="edit"
  transition from="edit" to="scan"
}
"""
MOMENTS = int(os.environ.get("AWF_CRASH_MOMENTS", "4"))  # of death, at random
MOST = max(40, MOMENTS)  # runs of a scenario
TRIED = [("always", "records"), ("random", "fresh")]
if "AWF_CRASH_MOMENTS" in os.environ:
    TRIED = [(scenario, store) for scenario in ("once", "always", "random") for store in ("records", "fresh")]
FIXED = "Done.\n[FINDING 1: fixed]\n[FINDING 2: fixed]\n[FINDING 3: not fixed, because it is hard]\n"


def returned(reviewer: str, *items: tuple[str, int, str], more: str = "") -> str:
    """A review's answer."""
    found = [
        {
            "title": title,
            "severity": "P2" if title.startswith("Nothing") else "P1",  # an agent may dismiss a suggestion only
            "file": "app.py",
            "line": line,
            "autofix_class": "gated_auto",
            "owner": "downstream-resolver",
            "requires_verification": False,
            "confidence": 100,
            "evidence": [f"app.py:{line} -- {quote}"],
            "pre_existing": False,
        }
        for title, line, quote in items
    ]
    return json.dumps({"reviewer": reviewer, "findings": found, "reviewed": ["app.py: read"]}) + more


def linted(*lines: int) -> str:
    """A linter's report."""

    def at(line: int) -> dict[str, Any]:
        return {"physicalLocation": {"artifactLocation": {"uri": "app.py"}, "region": {"startLine": line}}}

    results = [
        {"ruleId": "X1", "level": "error", "message": {"text": "no context manager"}, "locations": [at(line)]}
        for line in lines
    ]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "scan"}}, "results": results}]})


EARLY = ("The module is imported too early", 1, "import os")
SILENT = ("Nothing is printed in the end", 9, "print(load(os.devnull))")
SCRIPT = {
    "one": [returned("one", EARLY), returned("one", more="\n\n[FINDING 2: fixed]\n")],
    "two": [returned("two", SILENT), returned("two", SILENT)],
    "fix": {"write": {"app.py": CODE.replace("import os", "import os  # first")}, "reply": FIXED},
}


def project(folder: Path, *, records: bool) -> Path:
    """A git repository with the workflow in it, and perhaps a workspace for records."""
    folder.mkdir()
    if records:
        (folder / ".wystack").mkdir()
        (folder / ".wystack/.keep").touch()
    files = {"app.py": CODE, "crash.awf.kdl": WORKFLOW, "script.json": json.dumps(SCRIPT)}
    files |= {"edit.sed": '/Nothing is/,/status/s/open"/wont_fix", "note": "so"/\n'}
    files |= {"scan.1.sarif": linted(5), "scan.2.sarif": linted()}
    for name, text in files.items():
        (folder / name).write_text(text)
    lab.git(folder, "init", "-q", "-b", "main")
    lab.git(folder, "add", "-A")
    lab.git(folder, "-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-qm", "start")
    return folder


class Trial(lab.Trial):
    """One run, with what it left in the ledger and in the files about it."""

    def left_behind(self) -> dict[str, Any]:
        """What the finished run left, without times and what is made from them."""
        return {**super().left_behind(), **dict(self._findings())}

    def _findings(self) -> Iterator[tuple[str, Any]]:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            ledger = LedgerStore(journal).ledger()
            raised = [line for _, line in journal.ledger() if '"kind":"raised"' in line]
        yield "findings", {finding.id: _told(finding.model_dump(mode="json")) for finding in ledger.findings.values()}
        yield "raised", len(raised)
        yield "passes", [(one.stage, one.visit, one.finding_ids) for one in ledger.passes.values()]
        yield "verdict file", self._verdict_file()
        records = sorted(self._records("findings", ("status", "gate", "triage_history")))
        yield "records", [(name, text.replace("stage:edit", _by("stage:edit"))) for name, text in records]
        names = ("must_count", "suggest_count", "verdict", "finding_ids")
        yield "reviews", [record for _, record in self._records("reviews", names)]
        yield "records of passes", len(ledger.passes) == len(list((self.folder / ".wystack/reviews").glob("*.json")))
        yield "same ledger", self._folded_twice(ledger)

    def _verdict_file(self) -> Any:
        """The latest verdict; every other file there must be whole too."""
        read = [json.loads(path.read_text()) for path in sorted((self.folder / ".code-review").glob("review-*.json"))]
        latest = next(one for one in read[::-1] if "findings" in one)
        listed = [(one["x_finding"], one["status"]) for one in latest["findings"]]
        return [latest["verdict"], latest["summary"], listed]

    def _records(self, kind: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for path in sorted((self.folder / ".wystack" / kind).glob("[!.]*.json")):
            record = json.loads(path.read_text())
            told = {name: record[name] for name in names}
            for entry in told.get("triage_history", []):
                entry.pop("at")
            yield (path.stem if kind == "findings" else ""), json.dumps(told, sort_keys=True)

    def _folded_twice(self, ledger: Ledger) -> bool:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            return LedgerStore(journal).ledger().findings == ledger.findings


def _told(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding without its times, and what is made of them."""
    kept = ("number", "title", "state", "line", "gate", "reviewer", "signature", "aliases", "ext")
    history = [
        [change["what"], _by(change["who"]), change["by"], change["word"], change["state"], change["note"]]
        for change in finding["history"]
    ]
    return {**{name: finding[name] for name in kept}, "history": history}


def _by(name: str) -> str:
    """Who did it: what a stage edited before it died is a file's edit when the run is resumed."""
    return "file" if name == "stage:edit" else name


def deaths(scenario: str, trial: Trial, number: int, took: float) -> int:
    """Kill a run in the way that a scenario says and take it up again until it is over; how often it died."""
    if scenario == "once":
        return lab.one_death(trial, number - 1)
    if scenario == "always":
        return lab.every_death(trial)
    chance = random.Random(f"{scenario}{number}")  # noqa: S311 - a test's moments of death
    return lab.many_deaths(trial, [chance.uniform(0.1, 0.6) * took for _ in range(3)])


def main(scenario: str, store: str, workdir: Path) -> None:
    """Run a scenario and print what came of it."""
    workdir.mkdir()
    template = project(workdir / "template", records=store == "records")
    calm = Trial(template, workdir / "calm")
    began = time.monotonic()
    if calm.live():
        sys.exit(calm.output())
    took = time.monotonic() - began
    expected = calm.left_behind()
    many = {"once": calm.appends(), "always": 2 * calm.appends()}.get(scenario, MOMENTS)
    died, wrong = 0, list(calm.wrong(expected))
    for number in range(1, MOST + 1):
        if died >= many:
            break
        trial = Trial(template, workdir / "trial")
        died += deaths(scenario, trial, number, took)
        if problems := list(trial.wrong(expected)):
            wrong += [f"at {number}: {problem}" for problem in problems] + [trial.output()]
        trial.remove()
    states = {told["title"]: told["state"] for told in expected["findings"].values()}
    sys.stdout.write(json.dumps({"enough": many, "deaths": died, "wrong": wrong, "states": states}) + "\n")


@pytest.mark.parametrize(("scenario", "store"), TRIED)
def test_a_killed_run_leaves_the_ledger_and_its_files_as_if_nothing_had_happened(
    tmp_path: Path, scenario: str, store: str
) -> None:
    """Between any two journal appends and at random moments: nothing torn, lost or raised twice."""
    done = subprocess.run(
        [sys.executable, __file__, scenario, store, str(tmp_path / "lab")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["deaths"] >= report["enough"]
    assert report["states"] == {
        "no context manager": "verified_fixed",
        "The module is imported too early": "verified_fixed",
        "Nothing is printed in the end": "wont_fix",
    }


if __name__ == "__main__":
    gc.freeze()  # pages that no collection writes to stay shared with the forks
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
