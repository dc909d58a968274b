"""The section of open reports."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

Report = Callable[..., dict[str, Any]]
Summary = Callable[..., str]

HEADING = "## Outstanding Review Findings"


def headings(text: str) -> list[str]:
    return re.findall(r"^### (.*)$", text, re.MULTILINE)


def test_reports_have_a_section(summary: Summary, report: Report) -> None:
    """004-20: heading, stage, status, reason, response and rule."""
    text = summary([report("review_code", failureReason="two holes", response="src/a.py:3: a hole")])
    assert f"\n\n{HEADING}\n\n" in text
    assert "\n\n### review_code (fail)\n**Reason:** two holes\n\n```\nsrc/a.py:3: a hole\n```\n\n---" in text


def test_reports_are_in_no_other_section(summary: Summary, report: Report) -> None:
    """004-21: neither the list nor a quoted response is among the values."""
    text = summary({"review.findings": [report(response="the hole")], "review.response": "the hole", "plan": "dig"})
    assert "stageId" not in text
    assert "review.findings" not in text
    assert text.count("the hole") == 1
    assert "- plan: dig" in text


@pytest.mark.parametrize("nothing", [{}, {"review.findings": []}, {"review.findings": None}])
def test_without_reports_there_is_no_section(summary: Summary, report: Report, nothing: dict[str, Any]) -> None:
    """004-22: an absent or empty list does not change the rest of the summary."""
    text = summary({"plan": "dig", **nothing}, goal="a pond")
    assert HEADING not in text
    assert summary({"plan": "dig", "review.findings": [report()]}, goal="a pond").startswith(f"{text}\n\n{HEADING}")


def test_a_failure_comes_before_a_partial_success(summary: Summary, report: Report) -> None:
    """The most severe comes first, however old; an unknown status comes last."""
    reports = [report("odd", 9, status="?"), report("some", 8, status="partial_success"), report("bad", 1)]
    assert headings(summary(reports)) == ["bad (fail)", "some (partial_success)", "odd (?)"]


def test_among_equals_the_newest_comes_first(summary: Summary, report: Report) -> None:
    """Times are compared first, then iterations, then positions in the list."""
    reports = [
        report("a", 1, timestamp="2026-01-01T00:00:00Z"),
        report("b", 1, timestamp="2026-01-01T00:00:00.500+00:00"),
        report("c", 1, timestamp="2026-01-01T02:00:00+01:00"),
        report("d", 2, timestamp="yesterday"),
        report("e", 3, timestamp="yesterday"),
        report("f", 3, timestamp="yesterday"),
    ]
    assert [words[0] for words in headings(summary(reports))] == ["c", "b", "a", "e", "f", "d"]


def test_earlier_iterations_are_shown_while_there_is_room(summary: Summary, report: Report) -> None:
    """In full, the latest first; without room, in one line that gives each reason once."""
    reasons = {1: "a hole", 2: "a hole", 3: "a crack", 4: "a leak", 6: "a leak"}
    text = summary(
        [report("r", number, failureReason=why, response=f"no. {number}") for number, why in reasons.items()]
    )
    assert "Also failed in visits 1 to 4: same reason; a crack; a hole\n" in text
    shown = [text.index(f"no. {number}") for number in (6, 4, 3, 2, 1)]
    assert shown == sorted(shown)
    assert "Condensed" not in text
    long = [report("r", number, response=f"{number}" * 3_000) for number in (1, 2, 3)]
    text = summary(long, budget=8_000)
    assert ("3" * 3_000 in text, "2" * 3_000 in text, "1" * 3_000 in text) == (True, True, False)
    assert text.endswith("Condensed: 1 earlier iteration in one line each. Everything is in /run/findings.json.")


def test_the_highest_iteration_is_the_newest_report(summary: Summary, report: Report) -> None:
    """The order of the list does not matter."""
    text = summary([report("r", 2, response="second"), report("r", 1, response="first")])
    assert "second" in text
    assert "Also failed in visit 1: same reason" in text


@pytest.mark.parametrize("budget", [1_000, 2_000, 5_000, 24_000, 100_000])
def test_a_thousand_iterations_fit(summary: Summary, report: Report, budget: int) -> None:
    """004-23: a stage that failed a thousand times hides neither another stage nor its own newest report."""
    many = [report("slow", number, failureReason=f"reason {number}", response="x" * 6_000) for number in range(1, 1001)]
    text = summary([report("old", 1), *many, report("other", 2, status="partial_success")], budget=budget)
    assert len(text) <= budget
    assert all(re.search(rf"^(### |- ){stage} \(", text, re.MULTILINE) for stage in ("slow", "old", "other"))
    assert re.search(r"99\d earlier", text)
    assert "/run/findings.json" in text


def test_a_response_is_cut_in_the_middle(summary: Summary, report: Report) -> None:
    """004-23: its start and end are shown, with a note between them, outside any quotation."""
    lines = [f"line {number}" for number in range(10_000)]
    text = summary([report(response="\n".join(lines))], budget=4_000)
    found = re.search(
        r"```\nline 0\n(.*)\n```\n\n\[\.\.\. ([\d,]+) characters left out; whole text in /run/findings.json\]"
        r"\n\n```\n(.*)\nline 9999\n```\n",
        text,
        re.DOTALL,
    )
    assert found
    shown = len(f"line 0\n{found[1]}") + len(f"{found[3]}\nline 9999")
    assert int(found[2].replace(",", "")) == len("\n".join(lines)) - shown
    assert 3_500 < len(text) <= 4_000
    assert text.endswith("Condensed: 1 response cut. Everything is in /run/findings.json.")


def test_responses_share_the_room_fairly(summary: Summary, report: Report) -> None:
    """A short one is complete; the long ones get equal parts, with the path to the rest."""
    reports = [report(f"r{number}", 10 - number, response=f"{number}" * 5_000) for number in range(1, 4)]
    text = summary([*reports, report("r0", 1, response="0" * 500)], budget=8_000)
    assert "0" * 500 in text
    blocks = [
        text.split(f"### r{number} (fail)\n**Reason:** it is wrong\n\n")[1].split("---")[0] for number in (1, 2, 3)
    ]
    assert all("characters left out; whole text in /run/findings.json" in block for block in blocks)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 4


def test_reports_have_the_first_claim_on_the_budget(summary: Summary, report: Report) -> None:
    """They get at least six tenths of it, and everything that nothing else needs."""
    reports = [report(response="x" * 50_000)]
    crowded = summary({"review.findings": reports, "k": "v" * 50_000}, budget=10_000, goal="g" * 50_000)
    assert 5_800 < len(crowded.partition(HEADING)[2]) <= 6_000
    assert len(crowded) > 9_000
    assert len(summary(reports, budget=10_000).partition(HEADING)[2]) > 9_800


@pytest.mark.parametrize("stages", [10, 30, 100, 300])
def test_every_stage_is_named(summary: Summary, report: Report, stages: int) -> None:
    """With many stages a stage has one line, the first ones have more."""
    text = summary([report(f"stage_{n:03}", n, response="x" * 9_000) for n in range(stages)], budget=12_000)
    assert len(text) <= 12_000
    assert all(re.search(rf"^(### |- )stage_{n:03} \(fail\)", text, re.MULTILINE) for n in range(stages))
    assert f"### stage_{stages - 1:03} (fail)\n" in text


def test_too_many_stages_are_counted(summary: Summary, report: Report) -> None:
    """Stages that cannot be named are counted."""
    text = summary([report(f"stage_{n}", n) for n in range(5_000)], budget=1_000)
    assert len(text) <= 1_000
    lines, more = (
        len(re.findall("^- stage_", text, re.MULTILINE)),
        re.search(r"\nand ([\d,]+) more stages: (.*)\n", text),
    )
    assert lines > 0
    assert more
    assert int(more[1].replace(",", "")) + lines == 5_000
    assert re.fullmatch(r"stage_\d+(, stage_\d+)*\.\.\.", more[2])
    assert f"{lines} stages in one line each, {more[1]} stages by name at most" in text


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        7,
        [],
        {},
        {"stageId": None, "iteration": "x", "status": 3, "failureReason": ["a"], "response": {"b": 1}, "timestamp": 0},
        {"stageId": "s", "iteration": 10**5000, "timestamp": "9999-99-99"},
        {"stageId": "s", "iteration": True, "response": {1, 2}},
        {"stageId": "s", "iteration": -1, "timestamp": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_a_malformed_entry_is_shown_as_far_as_possible(summary: Summary, report: Report, entry: Any) -> None:
    """Nothing is raised, and other entries are shown."""
    text = summary([entry, report("sound"), entry])
    assert "### sound (fail)\n**Reason:** it is wrong\n" in text
    assert len(headings(text)) == 2


def test_a_value_that_is_not_a_list_is_shown(summary: Summary) -> None:
    """A single value in place of the list is one entry."""
    assert "### unnamed stage (unknown)\n**Reason:** none given\n\n```\ntext\n```" in summary(
        {"review.findings": "text"}
    )


@pytest.mark.parametrize("stages", [1, 100, 10_000])
def test_ten_thousand_reports_take_little_time(summary: Summary, report: Report, stages: int) -> None:
    """Rendering takes well under a tenth of a second for each thousand reports, of one stage or of many."""
    reports = [report(f"s{n % stages}", n // stages + 1, response="word " * 400) for n in range(10_000)]
    took = []
    for _ in range(3):
        began = time.process_time()
        summary(reports)
        took.append(time.process_time() - began)
    assert min(took) < 1
