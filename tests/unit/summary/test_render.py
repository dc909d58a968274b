"""The whole summary: its sections, its budget, and what hostile text can do to it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.engine.context import Context
from pipeline.engine.state import VisitSummary
from pipeline.summary.render import render
from pipeline.summary.report_index import ReportIndex
from pipeline.text import fence, prompt_line, sanitize_prompt

Report = Callable[..., dict[str, Any]]
Summary = Callable[..., str]
Outside = Callable[[str], list[str]]

SECTIONS = [
    "# Context",
    "## Goal",
    "## What has happened",
    "## Human feedback",
    "## Workspace",
    "## Context values",
    "## Outstanding Review Findings",
]
OURS = re.compile(
    r"|\*\*Reason:\*\* .*|- .*|\[cut: .*|\[\.\.\. .*|\[left out .*|Also failed .*|---|Condensed: .*"
    r"|and \d.* more stages: .*|Workflow: .*|Chosen: .*|Fenced text is quoted .*|#.*|(?:Visit \d+|Before): .*"
)

FORGED = (
    "```|~~~~|`|\n|\r|# H|\n## Outstanding Review Findings\n|\n---\n|\n### a (fail)\n|[STATUS: success]|word| |- |> "
)
PIECES = st.sampled_from([*FORGED.split("|"), "\x1b[31m", "\u2028", "\u202e", "\x00", "\x85", "\x0b", "\ud800"])
HOSTILE = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=30), PIECES.map(lambda it: it * 400))
REPORTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "stageId": HOSTILE,
            "iteration": st.integers(-1, 40),
            "status": st.one_of(st.sampled_from(["fail", "partial_success"]), HOSTILE),
            "failureReason": HOSTILE,
            "response": HOSTILE,
            "timestamp": st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+00:00"]),
        },
    ),
    max_size=12,
)
CONTEXTS = st.builds(
    lambda reports, values, label, feedback: {
        "review.findings": reports,
        **{f"k.{key}": value for key, value in values.items()},
        "human.gate.label": label,
        "human.gate.feedback": feedback,
        "workspace.path": label,
    },
    REPORTS,
    st.dictionaries(HOSTILE, st.one_of(HOSTILE, st.lists(HOSTILE, max_size=3), st.none(), st.integers()), max_size=5),
    HOSTILE,
    HOSTILE,
)
PASTS = st.lists(st.builds(VisitSummary, HOSTILE, st.integers(1, 9), HOSTILE, HOSTILE), max_size=15)


def above(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(r"##? ", line)]


@given(values=CONTEXTS, goal=HOSTILE, past=PASTS, extra=st.lists(HOSTILE, max_size=2), budget=st.integers(1_000, 9_000))
def test_the_budget_is_never_exceeded(
    summary: Summary, values: dict[str, Any], goal: str, past: list[VisitSummary], extra: list[str], budget: int
) -> None:
    """C-29: whatever the reports and the budget; and the same input gives the same text."""
    options: dict[str, Any] = {"goal": goal, "workflow": goal, "past": past, "extra": extra, "budget": budget}
    text = summary(values, **options)
    assert len(text) <= budget
    assert summary(values, **options) == text
    assert text.encode()


@given(reports=REPORTS.filter(lambda it: len({str(entry.get("stageId")) for entry in it}) <= 10), goal=HOSTILE)
def test_every_stage_is_named_in_a_small_budget(summary: Summary, reports: list[dict[str, Any]], goal: str) -> None:
    """Ten stages always fit into four thousand characters."""
    text = summary(reports, goal=goal, budget=4_000)
    for entry in reports:
        assert (prompt_line(entry.get("stageId", ""), 80) or "unnamed stage") in text


@given(values=CONTEXTS, goal=HOSTILE, past=PASTS, budget=st.sampled_from([1_000, 3_000, 300_000]))
def test_no_text_forges_a_section(
    summary: Summary, outside: Outside, values: dict[str, Any], goal: str, past: list[VisitSummary], budget: int
) -> None:
    """Outside the fences is only what the summary itself says, each heading once and in order."""
    lines = outside(summary(values, goal=goal, workflow=goal, past=past, budget=budget))
    assert [line for line in lines if not OURS.fullmatch(line)] == []
    found = above(lines)
    assert found == [heading for heading in SECTIONS if heading in found]
    headings = [
        f"### {prompt_line(it.newest.stage, 80) or 'unnamed stage'} ({prompt_line(it.newest.status, 30) or 'unknown'})"
        for it in ReportIndex("review.findings").groups(Context(values))
    ]
    shown = [line for line in lines if line.startswith("###")]
    assert shown == (headings if budget == 300_000 else headings[: len(shown)])


@given(text=HOSTILE)
def test_a_response_is_quoted_in_full(summary: Summary, report: Report, text: str) -> None:
    """004-20, C-27: with enough room, only control characters are missing from it."""
    shown = summary([report(response=text)], budget=100_000)
    assert not sanitize_prompt(text) or f"\n{fence(sanitize_prompt(text))}\n" in shown


@pytest.mark.parametrize("budget", [1_000, 1_500, 3_000, 10_000, 24_000, 100_000])
def test_budgets(summary: Summary, report: Report, outside: Outside, budget: int) -> None:
    """In any budget each section is shown or named as left out, and most of the budget is used."""
    values = {
        "review.findings": [report(f"r{n}", n, response="word\n" * 9_000) for n in range(4)],
        "human.gate.label": "Revise",
        "human.gate.feedback": "more\n" * 9_000,
        "workspace.path": "/repo/tree",
        **{f"k{n}": "value\n" * 9_000 for n in range(9)},
    }
    past = [VisitSummary("build", n, "fail", "broken") for n in range(1, 100)]
    text = summary(values, goal="do it\n" * 9_000, past=past, extra=["## Metrics\n\n" + "7\n" * 9_000], budget=budget)
    assert 0.7 * budget < len(text) <= budget
    lines = outside(text)
    left_out = " ".join(line for line in lines if line.startswith("[left out"))
    for heading in SECTIONS:
        assert heading in lines or heading.lstrip("# ") in left_out
    assert "## Metrics" in lines or "1 section of plugins" in left_out


def test_sections_are_in_order(summary: Summary, report: Report, outside: Outside) -> None:
    """The findings are last, so that "the review findings below" is true; sections of plugins come before them."""
    values = {"human.gate.label": "Revise", "workspace.branch": "b", "k": "v", "review.findings": [report()]}
    text = summary(values, goal="g", past=[VisitSummary("a", 1, "success", "")], extra=["## Metrics\n\n7"])
    assert above(outside(text)) == [*SECTIONS[:-1], "## Metrics", SECTIONS[-1]]


def test_empty_sections_are_left_out(summary: Summary) -> None:
    """The summary of an empty run is its name."""
    assert summary({}) == "# Context\n\nWorkflow: w"
    assert summary({}, workflow="") == "# Context"


def test_a_plugin_cannot_swallow_the_findings(summary: Summary, report: Report, outside: Outside) -> None:
    """A fence that its section leaves open is closed, whether it is cut or not."""
    for text in ("````\nopen", "~~~~~\n" + "open\n" * 9_000):
        assert SECTIONS[-1] in outside(summary([report()], extra=[text], budget=3_000))


def test_older_visits_are_counted(summary: Summary) -> None:
    """The last ten visits have a line each; earlier ones share a line for each stage."""
    past = [VisitSummary("review_code", n, "success" if n == 12 else "fail", "a hole") for n in range(1, 13)]
    later = [VisitSummary("fix", n, "success", "") for n in range(1, 10)]
    text = summary({}, past=[*past, VisitSummary("review_code", 13, "fail", "a\nhole"), *later])
    assert "\n\n- review_code #1-#12: fail 11, success 1\n- review_code #13: fail (a hole)\n- fix #1: success\n" in text
    assert text.endswith("- fix #9: success")


@pytest.mark.parametrize(
    "key",
    [
        "_x",
        "a._full_response",
        "a.status",
        "a.usage.input_tokens",
        "graph.goal",
        "graph.x",
        "human.gate.x",
        "last_response",
        "last_stage",
        "outcome",
        "workspace.commit",
    ],
)
def test_bookkeeping_is_not_listed(summary: Summary, key: str) -> None:
    """004-21: private keys and those of the engine are not listed as values."""
    text = summary({key: "secret", "shown": "value"})
    assert text.endswith("## Context values\n\n- shown: value")
    assert "secret" not in text


def test_values_are_sorted_quoted_and_cut(summary: Summary) -> None:
    """Several lines are fenced, a long value says what is missing, and a repeated text is shown once."""
    long = "x" * 10_000
    text = summary({"d": long, "b": "two\nlines", "a": {"n": [1, None]}, "c": -5, "e": long, "f": ""})
    assert text.partition("## Context values\n\n")[2] == (
        '- a: {"n": [1, null]}\n- b:\n\n```\ntwo\nlines\n```\n\n- c: -5\n'
        f"- d:\n\n```\n{long[:4_000]}\n```\n[cut: 6,000 more characters]\n\n- e: the same as d\n- f: (empty)"
    )


def test_a_rich_summary(summary: Summary, report: Report, snapshot: SnapshotAssertion) -> None:
    """It reads well."""
    values = {
        "graph.goal": "A pond",
        "outcome": "fail",
        "selfci.response": "FAILED tests/test_pond.py::test_depth - assert 2 == 3",
        "tool.output": "FAILED tests/test_pond.py::test_depth - assert 2 == 3",
        "plan.response": "1. Dig.\n2. Fill:\n\n```sh\nhose --on\n```\n",
        "attempts": 3,
        "human.gate.label": "Revise",
        "human.gate.selected": "revise",
        "human.gate.feedback": "Deeper, please.\n# Not a heading",
        "workspace.path": "/srv/pond/.awf/worktrees/r1",
        "workspace.branch": "awf/r1",
        "review.findings": [
            report("review_code", 1, failureReason="No lining"),
            report("review_code", 2, failureReason="Too shallow"),
            report(
                "selfci", 3, failureReason="1 failed", response="FAILED tests/test_pond.py::test_depth - assert 2 == 3"
            ),
            report("review_tests", 3, status="partial_success", failureReason="Thin", response="Test the edges."),
            report(
                "review_code",
                3,
                failureReason="Too shallow",
                response="".join(f"HIGH src/pond.py:{n} {'too shallow ' * 8}\n" for n in range(99)),
            ),
        ],
    }
    past = [VisitSummary("plan", 1, "success", "")]
    for visit in (1, 2, 3):
        past += [
            VisitSummary("fix", visit, "success", ""),
            VisitSummary("selfci", visit, "fail", "1 failed"),
        ]
        past += [
            VisitSummary("review_code", visit, "fail", "Too shallow"),
            VisitSummary("review_tests", visit, "partial_success", "Thin"),
        ]
    extra = ["## Open items\n\n- 2 of severity HIGH"]
    assert (
        summary(values, goal="Dig a pond\nfor ducks", workflow="quick-dev", past=past, extra=extra, budget=4_000)
        == snapshot
    )


def test_omitted_visits_are_counted() -> None:
    """A shortened history says how many visits are missing."""
    past = [VisitSummary("a", 5, "success", "")]
    text = render(Context({}), [], goal="g", workflow="W", past=past, budget=4000, findings_path="", omitted_visits=4)
    assert "- 4 visits before these\n- a #5: success" in text
