"""Files become models, with defaults; models compare by content; durations and model choice."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.language.model import (
    MAX_DURATION,
    Access,
    Backoff,
    DecisionStage,
    Effects,
    ExitStage,
    FindingsFormat,
    HumanStage,
    Lens,
    LlmStage,
    ModelChoice,
    Models,
    ParallelStage,
    Profile,
    Retry,
    StageKind,
    ToolStage,
    Workflow,
    WorkspaceStage,
    choose_model,
    is_review,
    parse_duration,
    write_duration,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import decode

EVERYTHING = """workflow "Everything" {
  version 2
  description "Every kind and attribute"
  goal "a goal"
  start "plan"
  settings {
    max_visits 12
    max_stages 400
    max_duration "4h"
    max_cost_usd 25
    summary_budget 9000
  }
  models {
    default "fast"
    profile "fast" model="m1" provider="p1"
    profile "heavy" model="m2" provider="p2" reasoning_effort="high"
  }
  stage "plan" kind="llm" prompt="Plan $goal" model="m" provider="p" model_profile="heavy" reasoning_effort="low" \\
    backend="claude" access="none" goal_gate=true response_key_base="base" lens="qa" timeout="90s" retry_target="plan" {
    retry max_attempts=3 backoff="exponential" delay="500ms" max_delay="30s"
    meta { owner "me"; tags "a" "b"; nested deep=1 { more true; }; nothing; }
  }
  stage "review" kind="llm" prompt_file="a.md, b.md" auto_status="true"
  stage "check" kind="tool" command="make" cwd="src" timeout="1h30m" findings="sarif" effects="external" \\
    goal_gate=true retry_target="plan"
  stage "ask" kind="human" prompt="Good?" re_review=false timeout="2d" {
    option "yes" label="Yes" to="many" approves=true
    option "no" label="No" to="plan"
    require_feedback_on "no"
    require_feedback_on "yes"
    details_from "plan.response, check.response"
    default "no"
  }
  stage "many" kind="parallel" max_parallel=2 join=1 { branch "b1"; branch "b2"; }
  stage "b1" kind="tool" command="one"
  stage "b2" kind="tool" command="two" effects="none"
  stage "way" kind="decision" {
    route when="findings() > 0" to="plan" priority=5
    route when="true" to="ws"
  }
  stage "ws" kind="workspace.create" workspace_name="w"
  stage "back" kind="workspace.merge"
  stage "tidy" kind="workspace.cleanup"
  stage "end" kind="exit"
  transition from="plan" to="review"
  transition from="review" to="check" when="outcome(\\"review\\") == \\"success\\"" priority=2
  transition from="review" to="plan"
  transition from="check" to="ask"
  transition from="many" to="way"
  transition from="ws" to="back"
  transition from="back" to="tidy"
  transition from="tidy" to="end"
}
"""


def workflow(text: str) -> Workflow:
    draft = parse_workflow(decode("test", text.encode()))
    assert [problem.message for _, problem in draft.hits] == []
    assert draft.workflow is not None
    return draft.workflow


def small(stage: str) -> Workflow:
    return workflow(f'workflow "W" {{\nversion 2\nstart "s"\n{stage}\nstage "end" kind="exit"\n}}')


def test_every_attribute_reaches_the_model() -> None:
    """Nothing in a file is dropped."""
    said = workflow(EVERYTHING)
    assert (said.name, said.description, said.goal, said.start) == (
        "Everything",
        "Every kind and attribute",
        "a goal",
        "plan",
    )
    assert said.settings.model_dump() == {
        "max_visits": 12,
        "max_stages": 400,
        "max_duration": "4h",
        "max_cost_usd": 25.0,
        "summary_budget": 9000,
    }
    assert said.models.default == "fast"
    assert said.models.profile("heavy") == Profile(name="heavy", model="m2", provider="p2", reasoning_effort="high")
    plan, review, check, ask, many, _, _, way, ws, back, tidy, end = said.stages
    assert plan == LlmStage(
        id="plan",
        prompt="Plan $goal",
        model="m",
        provider="p",
        model_profile="heavy",
        reasoning_effort="low",
        backend="claude",
        access=Access.NONE,
        goal_gate=True,
        response_key_base="base",
        lens=Lens.QA,
        timeout=timedelta(seconds=90),
        retry_target="plan",
        retry=Retry(
            max_attempts=3,
            backoff=Backoff.EXPONENTIAL,
            delay=timedelta(milliseconds=500),
            max_delay=timedelta(seconds=30),
        ),
        meta={"owner": "me", "tags": ["a", "b"], "nested": {"deep": 1, "more": True}, "nothing": None},
    )
    assert review == LlmStage(id="review", prompt_file=("a.md", "b.md"), auto_status=True)
    assert check == ToolStage(
        id="check",
        command="make",
        cwd="src",
        timeout=timedelta(minutes=90),
        findings=FindingsFormat.SARIF,
        effects=Effects.EXTERNAL,
        goal_gate=True,
        retry_target="plan",
    )
    assert isinstance(ask, HumanStage)
    assert (ask.require_feedback_on, ask.details_from, ask.default, ask.re_review) == (
        ("no", "yes"),
        ("plan.response", "check.response"),
        "no",
        False,
    )
    assert [(option.key, option.label, option.to, option.approves) for option in ask.options] == [
        ("yes", "Yes", "many", True),
        ("no", "No", "plan", False),
    ]
    assert isinstance(many, ParallelStage)
    assert ([branch.stage for branch in many.branches], many.max_parallel, many.join) == (["b1", "b2"], 2, 1)
    assert isinstance(way, DecisionStage)
    assert [(str(route.when), route.to, route.priority) for route in way.routes] == [
        ("findings() > 0", "plan", 5),
        ("true", "ws", 0),
    ]
    assert ws == WorkspaceStage(id="ws", kind=StageKind.WORKSPACE_CREATE, workspace_name="w")
    assert [stage.kind for stage in (back, tidy)] == [StageKind.WORKSPACE_MERGE, StageKind.WORKSPACE_CLEANUP]
    assert end == ExitStage(id="end")
    assert [(t.source, t.to, t.priority, str(t.when or "")) for t in said.transitions][1] == (
        "review",
        "check",
        2,
        'outcome("review") == "success"',
    )


def test_what_is_not_given_has_its_default() -> None:
    """Five minutes for a tool, coding access for an agent, one attempt, twenty visits, a thousand stages."""
    said = small('stage "s" kind="tool" command="x"\ntransition from="s" to="end"')
    assert (said.settings.max_visits, said.settings.max_stages, said.settings.summary_budget) == (20, 1000, 24000)
    assert (said.settings.max_duration, said.settings.max_cost_usd) == (None, None)
    tool = said.stage("s")
    assert isinstance(tool, ToolStage)
    assert (tool.timeout, tool.findings, tool.effects) == (
        timedelta(minutes=5),
        FindingsFormat.TEXT,
        Effects.WORKSPACE,
    )
    assert tool.retry == Retry(max_attempts=1, backoff=Backoff.NONE)
    assert LlmStage(id="a", prompt="x").access is Access.CODING
    assert HumanStage(id="a", prompt="x").re_review
    assert ParallelStage(id="a").join == "all"


@pytest.mark.parametrize(
    ("written", "review"),
    [("auto_status=true", True), ('auto_status="true"', True), ("auto_status=false", False), ("", False)],
)
def test_auto_status_makes_a_review(written: str, review: bool) -> None:  # noqa: FBT001 - a table's column
    """004-10: a stage is a review when `auto_status` is true or "true", and not otherwise."""
    said = small(f'stage "s" kind="llm" prompt="x" {written}\ntransition from="s" to="end" when="findings() == 0"')
    assert is_review(said.stage("s")) is review


def test_a_delay_without_a_backoff_is_kept() -> None:
    """A delay without a backoff is a fixed one."""
    said = small(
        'stage "s" kind="tool" command="x" {\nretry max_attempts=2 delay="5s"\n}\ntransition from="s" to="end"'
    )
    assert said.stage("s").retry == Retry(max_attempts=2, backoff=Backoff.FIXED, delay=timedelta(seconds=5))


def test_workflows_compare_by_content() -> None:
    """The same text with other whitespace is the same workflow."""
    spread = EVERYTHING.replace("\n  stage", "\n\n\n     stage")
    assert workflow(spread) == workflow(EVERYTHING)


def test_a_workflow_survives_json() -> None:
    """Dumped and read again it is the same, conditions and durations included."""
    said = workflow(EVERYTHING)
    assert Workflow.model_validate_json(said.model_dump_json()) == said


def test_stages_know_the_span_of_each_attribute() -> None:
    """Every attribute in the file has its span."""
    source = decode("test", EVERYTHING.encode())
    said = workflow(EVERYTHING)
    spans = said.stage("check").spans
    assert {name: source.text[slice(*span)] for name, span in spans.attributes.items() if name != "id"} == {
        "kind": '"tool"',
        "command": '"make"',
        "cwd": '"src"',
        "timeout": '"1h30m"',
        "findings": '"sarif"',
        "effects": '"external"',
        "goal_gate": "true",
        "retry_target": '"plan"',
    }
    assert source.text[slice(*spans.node)] == 'stage "check"'


MODELS = Models(
    default="fast",
    profiles=(
        Profile(name="fast", model="m-fast", provider="p-fast"),
        Profile(name="heavy", model="m-heavy", provider="p-heavy", reasoning_effort="high"),
    ),
)
RUN = ModelChoice("m-run", "p-run", "low")


@pytest.mark.parametrize(
    ("stage", "models", "chosen"),
    [
        ({"model": "m", "provider": "p", "reasoning_effort": "e"}, MODELS, ModelChoice("m", "p", "e")),
        ({"model_profile": "heavy"}, MODELS, ModelChoice("m-heavy", "p-heavy", "high")),
        ({"model_profile": "heavy", "reasoning_effort": "e"}, MODELS, ModelChoice("m-heavy", "p-heavy", "e")),
        ({"model": "m", "model_profile": "heavy"}, MODELS, ModelChoice("m", None, "high")),
        ({}, MODELS, ModelChoice("m-fast", "p-fast", "low")),
        ({}, Models(default="m-bare"), ModelChoice("m-bare", None, "low")),
        ({}, Models(), RUN),
        ({"provider": "p"}, Models(), ModelChoice("m-run", "p", "low")),
    ],
)
def test_a_model_is_chosen_level_by_level(stage: dict[str, str], models: Models, chosen: ModelChoice) -> None:
    """Stage, profile, workflow, run; a provider never comes from a lower level than its model."""
    assert choose_model(LlmStage.model_validate({"id": "s", "prompt": "x", **stage}), models, RUN) == chosen


@pytest.mark.parametrize(
    ("stage", "models", "chosen"),
    [
        ({"model_profile": "heavy"}, MODELS, ModelChoice("m-mine", "p-mine", "low")),
        ({"model_profile": "heavy", "model": "m"}, MODELS, ModelChoice("m", None, "low")),
        ({}, Models(default="heavy", profiles=MODELS.profiles), ModelChoice("m-mine", "p-mine", "low")),
        ({}, Models(default="heavy"), ModelChoice("heavy", None, "low")),  # a model, since no such profile is declared
        ({"model_profile": "open"}, Models(profiles=(Profile(name="open"),)), RUN),
        (
            {"model_profile": "open"},
            Models(default="fast", profiles=(Profile(name="open", reasoning_effort="e"), *MODELS.profiles)),
            ModelChoice("m-fast", "p-fast", "e"),
        ),
    ],
)
def test_a_profile_of_the_settings_replaces_the_declared_one(
    stage: dict[str, str], models: Models, chosen: ModelChoice
) -> None:
    """As a whole, and only if the workflow declares the name; a declared name without a model gets the default."""
    mine = {"heavy": ModelChoice("m-mine", "p-mine")}
    assert choose_model(LlmStage.model_validate({"id": "s", "prompt": "x", **stage}), models, RUN, mine) == chosen


names = st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=20).filter(
    str.strip
)


def kdl(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, list[LlmStage | ToolStage], str]:
    """A workflow as text, and its expected stages: a chain that ends."""
    ids = draw(st.lists(names.filter(lambda name: name != "end"), min_size=1, max_size=6, unique=True))
    stages: list[LlmStage | ToolStage] = []
    for name in ids:
        if draw(st.booleans()):
            stages.append(LlmStage(id=name, prompt=draw(texts), access=draw(st.sampled_from(Access))))
        else:
            timeout = timedelta(milliseconds=draw(st.integers(1, 10**9)))
            stages.append(
                ToolStage(id=name, command=draw(texts), timeout=timeout, effects=draw(st.sampled_from(Effects)))
            )
    goal = draw(texts)
    lines = [f'workflow "W" {{\nversion 2\ngoal {kdl(goal)}\nstart "{ids[0]}"']
    for stage in stages:
        written = stage.model_dump(exclude_defaults=True, exclude={"id", "kind"})
        attributes = " ".join(f"{name}={kdl(value)}" for name, value in written.items())
        lines.append(f'stage "{stage.id}" kind="{stage.kind}" {attributes}')
    following = [*ids[1:], "end"]
    lines += [f'transition from="{a}" to="{b}"' for a, b in zip(ids, following, strict=True)]
    lines += ['stage "end" kind="exit"', "}"]
    return "\n".join(lines), stages, goal


@given(chains())
@settings(max_examples=60)
def test_generated_workflows_are_read_exactly(made: tuple[str, list[LlmStage | ToolStage], str]) -> None:
    """They come back from their text, and from JSON, as they were."""
    text, stages, goal = made
    said = parse_workflow(decode("test", text.encode())).workflow
    assert said is not None
    assert list(said.stages[:-1]) == stages
    assert said.goal == goal
    assert Workflow.model_validate_json(said.model_dump_json()) == said


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("500ms", 500),
        ("30s", 30_000),
        ("2m", 120_000),
        ("10m", 600_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("0s", 0),
    ],
)
def test_every_unit_of_a_duration(text: str, milliseconds: int) -> None:
    """`500ms` is half a second and `2m` two minutes."""
    assert parse_duration(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "-5s", "1.5h", "5x", "30s1h", "1m1m", "5M", "٣s", "9" * 30 + "d"]
)
def test_a_malformed_duration_is_refused_with_an_example(text: str) -> None:
    """A number without a unit, a unit twice or out of order, and other text."""
    with pytest.raises(ValueError, match=r"such as|at most"):
        parse_duration(text)


@given(st.timedeltas(timedelta(0), MAX_DURATION))
def test_a_duration_is_read_as_it_is_written(duration: timedelta) -> None:
    """Writing and reading again gives the same milliseconds."""
    whole = timedelta(milliseconds=duration // timedelta(milliseconds=1))
    assert parse_duration(write_duration(whole)) == whole
