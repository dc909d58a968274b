"""The outcome of an agent stage: the worse of findings and status counts; an unreadable answer is an error."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest

from pipeline.engine.outcome import FailureClass, Outcome, Status, StatusSource, Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    Assessment,
    ErrorKind,
    Job,
)
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.handlers.llm import STATUS_REQUEST, LlmHandler, judge_results
from pipeline.language.model import LlmStage

REVIEW = LlmStage(id="rev", prompt="Review it", auto_status=True)
WORK = LlmStage(id="rev", prompt="Do it")
SOURCE = 'workflow "W" {\nversion 2\nstart "rev"\nstage "rev" kind="llm" prompt="x"\nstage "end" kind="exit"\n}\n'
BROKEN = Assessment(problem="the return is cut off")
GOOD = Assessment(Status.SUCCESS)


def answered(text: str, session: AgentSession | None = None) -> AgentResult:
    return AgentResult(AgentStatus.OK, text, usage=Usage(input_tokens=1), session=session)


class Agent:
    """Gives one answer after the other, and keeps the requests."""

    name = "agent"

    def __init__(self, answers: Sequence[AgentResult]) -> None:
        self._answers = list(answers)
        self.requests: list[AgentRequest] = []

    def variables(self, provider: str | None) -> Collection[str]:
        del provider
        return ()

    async def run(self, request: AgentRequest, tell: Callable[[AgentEvent], None]) -> AgentResult:
        del tell
        self.requests.append(request)
        return self._answers[len(self.requests) - 1]


def run_stage(
    answers: Sequence[AgentResult],
    readings: dict[str, Assessment | None],
    stage: LlmStage = REVIEW,
) -> tuple[Outcome, list[AgentRequest]]:
    """The outcome of a stage whose agent gives these answers, and the requests it got."""
    record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd="/", version="0")
    job = Job(stage, 1, 1, begin(record), Path("/nowhere"), lambda _: None, lambda _: None)
    agent = Agent(answers)
    handler = LlmHandler(
        lambda *_: agent,
        lambda _: "",
        lambda _: {},
        lambda: 0.0,
        read_answer=lambda _, answers: readings[answers[-1]],
    )
    outcome = asyncio.run(handler.run(job))
    assert isinstance(outcome, Outcome)
    return outcome, agent.requests


@pytest.mark.parametrize("claim", [Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL])
@pytest.mark.parametrize("found", [Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL])
def test_the_worse_of_findings_and_stated_status_counts(claim: Status, found: Status) -> None:
    """A contradiction never ends in a pass."""
    outcome = judge_results(
        REVIEW, [answered(f"[STATUS: {claim}]\n[FAILURE_REASON: so]")], "b", Assessment(found, "found it")
    )
    worse = max(found, claim, key=[Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL].index)
    assert outcome.status is worse
    assert outcome.reason == ("found it" if worse is found else "so")


def test_findings_need_no_status() -> None:
    """A review that returns findings may leave out the status."""
    outcome = judge_results(REVIEW, [answered("{}")], "b", Assessment(Status.FAIL, "found it"))
    assert (outcome.status, outcome.notes, outcome.response) == (Status.FAIL, (), "{}")


def test_an_unreadable_review_is_an_error_whatever_status_it_states() -> None:
    """6.6: it never passes by its stated status."""
    outcome = judge_results(REVIEW, [answered("[STATUS: success]")], "b", BROKEN)
    assert outcome.status is Status.ERROR
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL
    assert outcome.reason == "the review cannot be read: the return is cut off"


def test_the_answer_of_a_working_agent_is_not_read() -> None:
    """Only reviews are judged by their answer."""
    outcome, _ = run_stage([answered("{}")], {}, WORK)
    assert (outcome.status, outcome.source) == (Status.SUCCESS, StatusSource.DEFAULT)


def test_an_unreadable_review_is_asked_for_again() -> None:
    """4.3: a truncated answer is never repaired: the agent is told the problem and answers in full."""
    outcome, requests = run_stage(
        [answered("half"), answered("whole")], {"half": BROKEN, "whole": Assessment(Status.FAIL, "one")}
    )
    assert (outcome.status, outcome.source, outcome.reason) == (Status.FAIL, StatusSource.STRUCTURED, "one")
    assert outcome.usage == Usage(input_tokens=2)
    again = requests[1].prompt
    assert again.startswith("Review it")
    assert "the review cannot be read: the return is cut off" in again
    assert STATUS_REQUEST not in again


WISHING = Assessment(Status.SUCCESS, wish="Look again")


def test_a_wish_is_asked_about_once() -> None:
    """0-52: both answers are read together, also after one that could not be; the wish is then left alone."""
    readings: dict[str, Assessment | None] = {"half": BROKEN, "ok": WISHING, "more": Assessment(Status.FAIL, "one")}
    outcome, requests = run_stage([answered("half"), answered("ok"), answered("more")], readings)
    assert (outcome.status, outcome.reason) == (Status.FAIL, "one")
    assert outcome.answers == ("half", "ok", "more")
    assert requests[2].prompt.endswith("Look again")
    assert len({request.artifacts for request in requests}) == 3
    outcome, requests = run_stage([answered("ok"), answered("ok")], readings)
    assert (outcome.status, len(requests)) == (Status.SUCCESS, 2)


def test_a_review_in_words_may_leave_a_wish() -> None:
    """An assessment without a status leaves it to the agent's own words."""
    text = "Fine.\n[STATUS: success]"
    outcome, requests = run_stage([answered(text)] * 2, {text: Assessment(status=None, wish="Look again")})
    assert (outcome.status, outcome.source, len(requests)) == (Status.SUCCESS, StatusSource.MARKER, 2)


def test_an_answer_to_a_wish_may_have_a_problem() -> None:
    """It is asked about once, as any other; one that says nothing is not a pass."""
    readings: dict[str, Assessment | None] = {"ok": WISHING, "half": BROKEN, "": WISHING}
    outcome, requests = run_stage([answered("ok"), answered("half"), answered("ok")], readings)
    assert (outcome.status, len(requests)) == (Status.SUCCESS, 3)
    outcome, requests = run_stage([answered("ok"), answered("half"), answered("half")], readings)
    assert (outcome.status, len(requests)) == (Status.ERROR, 3)
    outcome, requests = run_stage([answered("ok"), answered("")], readings)
    assert (outcome.status, len(requests)) == (Status.ERROR, 2)


def test_a_single_answer_is_not_kept_twice() -> None:
    """`answers` are for a stage whose agent was asked more than once."""
    outcome, _ = run_stage([answered("ok")], {"ok": GOOD})
    assert (outcome.response, outcome.answers) == ("ok", ())


def test_in_a_session_the_prompt_is_not_repeated() -> None:
    """An agent that remembers its prompt is only told the problem."""
    session = AgentSession("s")
    _, requests = run_stage([answered("half", session), answered("whole")], {"half": BROKEN, "whole": GOOD})
    assert (requests[1].session, "Review it" in requests[1].prompt) == (session, False)


@pytest.mark.parametrize("stage", [REVIEW, WORK], ids=["a review", "work"])
@pytest.mark.parametrize(
    "silent",
    [
        answered(""),
        answered(" \n"),
        AgentResult(AgentStatus.ERROR, "", error=AgentError(ErrorKind.EMPTY, "it answered nothing")),
    ],
)
def test_an_empty_answer_is_never_a_pass(silent: AgentResult, stage: LlmStage) -> None:
    """It is an error of the agent, which the engine may retry."""
    outcome, requests = run_stage([silent], {silent.text: None}, stage)
    assert outcome.status is Status.ERROR
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.error, len(requests)) == (FailureClass.AGENT, ErrorKind.EMPTY, 1)


def test_an_agent_without_quota_is_not_started_again() -> None:
    """After one stage used up the quota, the next stage of that agent waits without starting it."""
    agent = Agent([AgentResult(AgentStatus.ERROR, error=AgentError(ErrorKind.QUOTA, "usage limit reached", 60.0))])
    now = [100.0]
    handler = LlmHandler(lambda *_: agent, lambda _: "", lambda _: {}, lambda: now[0])
    record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd="/", version="0")
    job = Job(WORK, 1, 1, begin(record), Path("/nowhere"), lambda _: None, lambda _: None)
    first = asyncio.run(handler.run(job))
    now[0] = 130.0
    second = asyncio.run(handler.run(job))
    assert len(agent.requests) == 1
    for outcome, wait in ((first, 60.0), (second, 30.0)):
        assert isinstance(outcome, Outcome)
        assert outcome.failure is not None
        assert (outcome.status, outcome.failure.retry_after) == (Status.ERROR, wait)


@pytest.mark.parametrize("status", [AgentStatus.ERROR, AgentStatus.TIMEOUT, AgentStatus.IDLE])
def test_an_agent_that_failed_is_not_asked_again(status: AgentStatus) -> None:
    """Crashes and timeouts are left to the stage's own retry."""
    _, requests = run_stage([AgentResult(status, "half an ans")], {}, WORK)
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("second", "response"),
    [
        ("As I said.\n[STATUS: fail]", "a.py:1 leaks, b.py:2 races\n\nAs I said.\n[STATUS: fail]"),
        ("a.py:1 leaks, b.py:2 races\n[STATUS: fail]", "a.py:1 leaks, b.py:2 races\n[STATUS: fail]"),
    ],
    ids=["a status alone", "all of it again"],
)
def test_the_first_answer_of_a_review_is_kept(second: str, response: str) -> None:
    """A second answer that does not repeat the first is added to it."""
    first = "a.py:1 leaks, b.py:2 races"
    outcome, requests = run_stage([answered(first), answered(second)], {first: None, second: None})
    assert (outcome.status, outcome.response) == (Status.FAIL, response)
    assert requests[0].artifacts != requests[1].artifacts, "what the first answer wrote is kept"


def test_a_review_without_status_is_asked_for_one() -> None:
    """004-34: exactly one marker is requested."""
    outcome, requests = run_stage(
        [answered("hm"), answered("[STATUS: success]")], {"hm": None, "[STATUS: success]": None}
    )
    assert (outcome.status, outcome.source) == (Status.SUCCESS, StatusSource.MARKER)
    assert requests[1].prompt.endswith(STATUS_REQUEST)


def test_a_stated_success_does_not_replace_unreadable_findings() -> None:
    """6.6: findings that could not be read are not outweighed by a status."""
    outcome, requests = run_stage(
        [answered("half"), answered("[STATUS: success]")], {"half": BROKEN, "[STATUS: success]": BROKEN}
    )
    assert (len(requests), outcome.status) == (2, Status.ERROR)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL


def test_a_second_answer_does_not_undo_the_failure_of_the_first() -> None:
    """The worse of two answers counts."""
    first, second = "[STATUS: fail]\n[FAILURE_REASON: it leaks]\nhalf", "[STATUS: success]"
    outcome, _ = run_stage([answered(first), answered(second)], {first: BROKEN, second: Assessment(Status.SUCCESS)})
    assert (outcome.status, outcome.reason) == (Status.FAIL, "it leaks")
    assert first in outcome.response


def test_a_second_answer_may_fail_in_words() -> None:
    """A stated failure needs no readable findings."""
    text = "[STATUS: fail]\n[FAILURE_REASON: it leaks]"
    outcome, _ = run_stage([answered("half"), answered(text)], {"half": BROKEN, text: BROKEN})
    assert (outcome.status, outcome.source, outcome.reason, outcome.failure) == (
        Status.FAIL,
        StatusSource.MARKER,
        "it leaks",
        None,
    )


def test_two_unreadable_answers_are_an_error() -> None:
    """The agent is requests once more, not forever."""
    outcome, requests = run_stage([answered("half"), answered("half")], {"half": BROKEN})
    assert len(requests) == 2
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL
