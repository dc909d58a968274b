"""How many rounds of fixing a change needs, when all reviews run and when the first failing one ends the round.

Four reviewers look at the same seeded change, each with an eye for some of its defects. A reviewer fails as long as a
defect of theirs is open; a fix removes what its prompt names, and nothing else. The replies of the scripted agent are
computed from that for each way of going through the reviews. Both runs then take place, and are counted from their
journals: visits of the fix, and characters of all prompts.
"""

import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.runs import build_record, result_of
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime, build_services
from pipeline.engine.driver import Driver
from pipeline.engine.records import VisitCompleted
from pipeline.engine.state import begin
from pipeline.journal.sqlite import SqliteJournal

SEED = 33
DEFECTS = 24
REVIEWERS = ("review_code", "review_security", "review_perf", "review_tests")
KINDS = ("does not close its file", "trusts its input", "reads everything twice", "is not tested")
WORKFLOW = """workflow "Rounds" {{
  version 2
  start "code"
  settings {{ max_visits 50; }}
  stage "code" kind="llm" prompt="Write it"
{reviews}
  stage "gate" kind="decision" {{
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }}
  stage "fix" kind="llm" prompt="Fix all outstanding issues listed in the review findings below."
  stage "exit" kind="exit"
  transition from="code" to="review_code"
{ways}
  transition from="fix" to="review_code"
}}
"""

Defects = Mapping[str, Sequence[str]]  # by the reviewer who finds them


@dataclass(frozen=True, slots=True)
class Rounds:
    """What it took until nothing was outstanding."""

    fixes: int
    reviews: int
    told: int  # characters of the prompts of all fixes
    characters: int  # of all prompts


def defects() -> Defects:
    """The seeded defects, each with a place of its own and at least one for every reviewer."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    owners = [*REVIEWERS, *chance.choices(REVIEWERS, k=DEFECTS - len(REVIEWERS))]
    found: dict[str, list[str]] = {reviewer: [] for reviewer in REVIEWERS}
    for number, owner in enumerate(owners):
        kind = KINDS[REVIEWERS.index(owner)]
        found[owner].append(f"src/module_{number}.py:{chance.randint(1, 400)} {kind}.")
    return found


def workflow(*, stops: bool) -> str:
    """The reviews in a row; with `stops`, one that fails leads to the fix at once."""
    line = '  stage "{0}" kind="llm" auto_status=true access="read-only" prompt="Review it"'
    return WORKFLOW.format(reviews="\n".join(map(line.format, REVIEWERS)), ways="\n".join(_ways(stops=stops)))


def _ways(*, stops: bool) -> Iterator[str]:
    for reviewer, following in zip(REVIEWERS, (*REVIEWERS[1:], "gate"), strict=True):
        passed, failed = (f' when="outcome(\\"{reviewer}\\") {sign} \\"success\\""' for sign in ("==", "!="))
        yield f'  transition from="{reviewer}" to="{following}"' + (passed if stops else "")
        if stops:
            yield f'  transition from="{reviewer}" to="fix"{failed}'


def replies(found: Defects, *, stops: bool) -> dict[str, list[str]]:
    """What the reviewers say on each visit, when a fix removes the defects it is told of."""
    still_open = {reviewer: list(own) for reviewer, own in found.items()}
    said: dict[str, list[str]] = {reviewer: [] for reviewer in REVIEWERS}
    told = list(REVIEWERS)
    while told:
        told = []
        for reviewer in REVIEWERS:
            said[reviewer].append(_verdict(still_open[reviewer]))
            if still_open[reviewer]:
                told.append(reviewer)
                if stops:
                    break
        still_open.update({reviewer: [] for reviewer in told})
    return said


def _verdict(still_open: Sequence[str]) -> str:
    if not still_open:
        return "Nothing has to change.\n[STATUS: success]"
    text = "\n".join(f"- {defect}" for defect in still_open)
    return f"{text}\n[STATUS: fail]\n[FAILURE_REASON: {len(still_open)} defects]"


def run(folder: Path, found: Defects, *, stops: bool) -> Rounds:
    """Run one of the two workflows to its end, and count."""
    path = folder / f"{'stops' if stops else 'all'}.awf.kdl"
    path.write_text(workflow(stops=stops))
    entry = Catalog(folder, folder, folder).find(path.name)
    options = {"backend": "scripted", "script": json.dumps(replies(found, stops=stops))}
    record = build_record(entry, check(entry), "bench", "Be green", options, folder, time.time())
    store = folder / path.name.partition(".")[0]
    journal = SqliteJournal(store)
    journal.create("bench", record)
    state = begin(record)
    asyncio.run(Driver(state, build_services(state, journal, Runtime(store=store, environ={}))).drive())
    result = result_of(load_state(journal, "bench"), journal)
    if result.status != "success":
        sys.exit(f"the run did not succeed: {result}")
    return _count(_prompts(journal), found)


def _prompts(journal: SqliteJournal) -> list[tuple[str, str]]:
    visits = [(e.record.stage, e.seq) for e in journal.entries("bench") if isinstance(e.record, VisitCompleted)]
    return [(stage, journal.attached("bench", seq)) for stage, seq in visits]


def _count(prompts: Sequence[tuple[str, str]], found: Defects) -> Rounds:
    fixes = [text for stage, text in prompts if stage == "fix"]
    unmentioned = [defect for own in found.values() for defect in own if not any(defect in text for text in fixes)]
    if unmentioned:
        sys.exit(f"no fix prompt mentions {unmentioned[0]}")  # although the replies treat it as fixed
    reviews = sum(stage in REVIEWERS for stage, _ in prompts)
    return Rounds(len(fixes), reviews, sum(map(len, fixes)), sum(len(text) for _, text in prompts))


def main() -> None:
    """Run both, print both."""
    found = defects()
    folder = Path(tempfile.mkdtemp(prefix="awf-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        everything, first = (run(folder, found, stops=stops) for stops in (False, True))
    finally:
        shutil.rmtree(folder)
    failing = sum(map(bool, found.values()))
    print(f"until green: {DEFECTS} defects, found by {failing} of {len(REVIEWERS)} reviewers")
    print(f"{'':24} {'fixes':>6} {'reviews':>8} {'fix prompts':>12} {'all prompts':>12}")
    for name, took in (("all reviews run", everything), ("stop at the first fail", first)):
        print(f"{name:<24} {took.fixes:>6} {took.reviews:>8} {took.told:>12,} {took.characters:>12,}")
    if (everything.fixes, first.fixes) != (1, failing):
        sys.exit(f"expected 1 fix against {failing}")


if __name__ == "__main__":
    main()
