"""The page of a run."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.web.conftest import PAGE, Browser, RunWriter
from tests.unit.web.workflows import GATE, LOOP, SIDE_BY_SIDE, TOOL, run_workflow

from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import BranchCompleted, RunCreated, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.journal.sqlite import SqliteJournal

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture
def journal(store: Path) -> Iterator[SqliteJournal]:
    """The store's journal."""
    with closing(SqliteJournal(store)) as opened:
        yield opened


def stage_class(page: str, stage: str) -> list[str]:
    """The classes of a stage in the chart."""
    found = re.search(rf'<g class="([^"]*)" data-stage="{stage}">', page)
    assert found
    return found[1].split()


def edge_class(page: str, source: str, target: str) -> list[str]:
    """The classes of an arrow in the chart."""
    found = re.search(rf'<g class="([^"]*)" data-from="{source}" data-to="{target}">', page)
    assert found
    return found[1].split()


def test_the_page_of_a_run(browser: Browser, store: Path) -> None:
    """It has the goal, the status, and each visit with its outcome, its source and the reason for the transition."""
    run_workflow(store, TOOL.replace("COMMAND", "echo hello"), goal="Say hello")
    page = browser().get(PAGE).text
    assert "<h1>Say hello</h1>" in page
    assert "success" in page
    assert "build #1</a>" in page
    assert "exit code" in page
    assert "only transition" in page
    assert "reached exit" in page
    assert 'id="s-build"' in page


def test_the_chart_shows_statuses_visits_and_transitions(browser: Browser, store: Path) -> None:
    """Stages have a class, a sign and words for their status; only transitions that were taken are marked."""
    run_workflow(store, LOOP.replace("LIMIT", "9").replace("TIMES", "3"))
    page = browser().get(PAGE).text
    assert "good" in stage_class(page, "work")
    assert "✓ ×3" in page
    assert "success, 3 visits</title>" in page
    assert "taken" in edge_class(page, "look", "work")
    assert "(taken 2 times)" in page
    assert edge_class(page, "look", "exit")[-2:] == ["taken", "latest"]
    early = browser().get(f"{PAGE}?at=1").text
    assert "idle" in stage_class(early, "look")
    assert "taken" not in edge_class(early, "look", "work")


def test_a_waiting_stage_is_marked(browser: Browser, store: Path) -> None:
    """The stage at which a run waits is the current one."""
    run_workflow(store, GATE)
    page = browser().get(PAGE).text
    assert stage_class(page, "approve")[-2:] == ["other", "current"]
    assert "idle" in stage_class(page, "release")
    assert 'href="#status">approve #1' in page


def test_branches_are_marked_while_their_stage_runs(browser: Browser, journal: SqliteJournal) -> None:
    """A finished branch shows its result while the others run."""
    source = SIDE_BY_SIDE
    journal.create("r1", RunCreated(at=1, run_id="r1", file="x.awf.kdl", source=source, cwd="/", version="1"))
    done = Outcome(status=Status.FAIL, reason="untidy")
    journal.append("r1", BranchCompleted(at=2, stage="checks", visit=1, branch="style", branch_visit=1, outcome=done))
    with journal.lock("r1"):
        page = browser().get(PAGE).text
    assert "bad" in stage_class(page, "style")
    assert stage_class(page, "unit")[-2:] == ["active", "current"]
    assert "in checks" in page
    assert "bad" not in stage_class(browser().get(PAGE).text, "unit")
    assert stage_class(browser().get(PAGE).text, "unit")[-2:] == ["other", "current"]  # no process drives it any more


def test_every_step_can_be_replayed(browser: Browser, store: Path) -> None:
    """The page shows the run after each of its records; no step shows what came later."""
    run_workflow(store, TOOL.replace("COMMAND", "false"), goal="Fail")
    client = browser()
    head = int(re.findall(r'data-head="(\d+)"', client.get(PAGE).text)[0])
    assert head == 2
    first = client.get(f"{PAGE}?at=1&part=view").text
    assert "exit code 1" not in first
    assert 'data-position="1"' in first
    assert "exit code 1" in client.get(f"{PAGE}?at=2&part=view").text
    for odd in ("0", "99", "-1", "x", "²", "9" * 40):
        assert client.get(f"{PAGE}?at={odd}").status_code == 200


def test_a_long_run_is_paged(browser: Browser, store: Path) -> None:
    """Of many visits the newest hundred are shown; all others can be reached, each once."""
    run_workflow(store, LOOP.replace("LIMIT", "200").replace("TIMES", "151"))
    client, address, seen = browser(), PAGE, list[str]()
    while address:
        page = client.get(address).text
        rows = re.findall(r'id="v-([a-z]+-\d+)"', page)
        assert len(rows) <= 100
        seen += rows
        older = re.search(r'id="v-older" rel="next" href="([^"#]+)', page)
        address = older[1].replace("&amp;", "&") if older else ""
    assert len(seen) == len(set(seen)) == 303
    assert seen[0] == "exit-1"
    assert seen[-1] == "work-1"
    newer = re.search(r'id="v-newer" rel="prev" href="([^"#]+)', client.get(f"{PAGE}?before=103").text)
    assert newer
    one_stage = client.get(f"{PAGE}?stage=look").text
    assert 'id="v-look' in one_stage
    assert 'id="v-work' not in one_stage


def test_rounds_are_counted(browser: Browser, store: Path) -> None:
    """The page has the numbers of each review round."""
    result = {
        "ruleId": "R1",
        "message": {"text": "The handle is never closed"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 1}}}],
    }
    driver = {"tool": {"driver": {"name": "lint", "rules": [{"id": "R1"}]}}}
    sarif = json.dumps({"version": "2.1.0", "runs": [{**driver, "results": [result]}]})
    command = f"printf %s {shlex.quote(sarif)}".replace("\\", "\\\\").replace('"', '\\"')
    store.parent.mkdir(parents=True)
    (store.parent / "a.py").write_text("open('x')\n")
    source = TOOL.replace('command="COMMAND"', f'command="{command}" findings="sarif"')
    run_workflow(store, source)
    page = browser().get(PAGE).text
    assert re.search(r'data-word="new">1<', page)
    assert re.search(r'data-word="resolved">0<', page)
    assert 'data-word="new"' in browser().get(f"{PAGE}?part=rounds").text


def test_a_part_is_fetched_alone(browser: Browser, store: Path) -> None:
    """Each live part is available at the address in its element, without the page around it."""
    run_workflow(store, GATE)
    client = browser()
    page = client.get(PAGE).text
    lives = re.findall(r'data-live="([^"]+)" data-topic="([^"]*)"', page)
    assert [topic for _, topic in lives] == ["run:r1", "run:r1", "findings"]
    for address, _ in lives:
        part = client.get(address.replace("&amp;", "&"))
        assert part.status_code == 200
        assert "<html" not in part.text


def test_an_unknown_run_is_not_found(browser: Browser, writer: RunWriter) -> None:
    """Whatever the name looks like, it is a 404."""
    writer.begin("r1")
    for name in ("nothing", "..%2f..%2fetc", "r1%00", "%2e%2e", EVIL):
        answer = browser().get(f"/s/shop/runs/{name}")
        assert answer.status_code == 404
        assert "<script>alert" not in answer.text


def test_programs_get_json(browser: Browser, store: Path) -> None:
    """The overview of a run is available as JSON, with the fields of `awf status --json`."""
    run_workflow(store, GATE)
    run = browser().get(f"{PAGE}?format=json").json()
    assert (run["run_id"], run["status"], run["stage"], run["visit"]) == ("r1", "waiting", "approve", 1)
    assert (run["question"], run["options"]) == ("Release this?", ["approve", "revise"])


def test_a_run_without_records_has_a_page(browser: Browser, writer: RunWriter) -> None:
    """The first stage is shown as running."""
    writer.begin("r1", goal="")
    with writer.journal.lock("r1"):
        page = browser().get(PAGE).text
    assert "running" in page
    assert "build #1" in page


def test_texts_of_a_run_are_escaped(browser: Browser, writer: RunWriter) -> None:
    """Goals, names, reasons, options and conditions are shown as text."""
    source = TOOL.replace("One tool", EVIL.replace('"', "")).replace('"build"', f'"{EVIL}"').replace("COMMAND", "true")
    writer.journal.create(
        "r1", RunCreated(at=1, run_id="r1", file="x", source=source, goal=f'"{EVIL}', cwd=f"/{EVIL}", version="1")
    )
    record = VisitCompleted(
        at=2,
        stage=EVIL,
        visit=1,
        attempt=1,
        outcome=Outcome(status=Status.FAIL, reason=EVIL, notes=(EVIL,), backend=EVIL),
        operations=(("set", "review.findings", [{"stageId": EVIL, "failureReason": EVIL, "iteration": 1}]),),
        chosen=Selection(target=EVIL, role=EVIL, when=EVIL, reason=EVIL),
        option=EVIL,
    )
    writer.journal.append("r1", record)
    client = browser()
    pages = [
        PAGE,
        f"{PAGE}?at=1",
        f"{PAGE}?stage={EVIL}",
        f"{PAGE}/visit?stage={EVIL}&visit=1",
        f"{PAGE}/visit?stage={EVIL}",
    ]
    for address in pages:
        text = client.get(address).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "style=" not in text
        assert "<style" not in text
        assert "&lt;script&gt;" in text or "must name a stage" in text
