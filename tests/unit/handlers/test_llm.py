"""What an agent's answer comes to where code can read it: findings go before claims, and half an answer is none."""

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


def said(text: str, session: AgentSession | None = None) -> AgentResult:
    return AgentResult(AgentStatus.OK, text, usage=Usage(input_tokens=1), session=session)


class Agent:
    """Answers one thing after the other, and keeps what it was asked."""

    name = "agent"

    def __init__(self, answers: Sequence[AgentResult]) -> None:
        self._answers = list(answers)
        self.asked: list[AgentRequest] = []

    def variables(self, provider: str | None) -> Collection[str]:
        del provider
        return ()

    async def run(self, request: AgentRequest, tell: Callable[[AgentEvent], None]) -> AgentResult:
        del tell
        self.asked.append(request)
        return self._answers[len(self.asked) - 1]


def handled(
    answers: Sequence[AgentResult], readings: dict[str, Assessment | None], stage: LlmStage = REVIEW
) -> tuple[Outcome, list[AgentRequest]]:
    """The outcome of a stage whose agent answers so, and whose answers are read so."""
    record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd="/", version="0")
    job = Job(stage, 1, 1, begin(record), Path("/nowhere"), lambda _: None, lambda _: None)
    agent = Agent(answers)
    handler = LlmHandler(
        lambda *_: agent, lambda _: "", lambda _: {}, lambda: 0.0, read_answer=lambda _, answers: readings[answers[-1]]
    )
    outcome = asyncio.run(handler.run(job))
    assert isinstance(outcome, Outcome)
    return outcome, agent.asked


@pytest.mark.parametrize("claim", [Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL])
@pytest.mark.parametrize("found", [Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL])
def test_of_findings_and_claim_the_worse_one_wins(claim: Status, found: Status) -> None:
    """A reviewer that contradicts itself never passes by its better half; the contradiction is noted."""
    outcome = judge_results(
        REVIEW, [said(f"[STATUS: {claim}]\n[FAILURE_REASON: so]")], "b", Assessment(found, "found it")
    )
    worse = max(found, claim, key=[Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL].index)
    assert outcome.status is worse
    assert outcome.reason == ("found it" if worse is found else "so")
    assert len(outcome.notes) == (claim is not found)


def test_findings_without_a_claim_contradict_nothing() -> None:
    """A review that returns findings needs no status."""
    outcome = judge_results(REVIEW, [said("{}")], "b", Assessment(Status.FAIL, "found it"))
    assert (outcome.status, outcome.notes, outcome.response) == (Status.FAIL, (), "{}")


def test_what_cannot_be_read_is_a_failure_of_the_protocol_whatever_is_claimed() -> None:
    """6.6: an unreadable return never passes by its claim."""
    outcome = judge_results(REVIEW, [said("[STATUS: success]")], "b", BROKEN)
    assert outcome.status is Status.ERROR
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL
    assert outcome.reason == "the review cannot be read: the return is cut off"


def test_an_agent_that_works_is_not_read() -> None:
    """Only reviews are judged by what they return."""
    outcome, _ = handled([said("{}")], {}, WORK)
    assert (outcome.status, outcome.source) == (Status.SUCCESS, StatusSource.DEFAULT)


def test_a_return_that_cannot_be_read_is_asked_for_again_with_what_is_wrong() -> None:
    """4.3: a truncated return is never repaired: the agent is told what is wrong and gives it whole."""
    outcome, asked = handled([said("half"), said("whole")], {"half": BROKEN, "whole": Assessment(Status.FAIL, "one")})
    assert (outcome.status, outcome.source, outcome.reason) == (Status.FAIL, StatusSource.STRUCTURED, "one")
    assert outcome.usage == Usage(input_tokens=2)
    again = asked[1].prompt
    assert again.startswith("Review it")
    assert "the review cannot be read: the return is cut off" in again
    assert STATUS_REQUEST not in again


def test_in_a_session_the_agent_is_only_told_what_is_wrong() -> None:
    """An agent that remembers is not given its prompt twice."""
    session = AgentSession("s")
    _, asked = handled([said("half", session), said("whole")], {"half": BROKEN, "whole": GOOD})
    assert (asked[1].session, "Review it" in asked[1].prompt) == (session, False)


@pytest.mark.parametrize("stage", [REVIEW, WORK], ids=["a review", "work"])
@pytest.mark.parametrize(
    "silent",
    [
        said(""),
        said(" \n"),
        AgentResult(AgentStatus.ERROR, "", error=AgentError(ErrorKind.EMPTY, "it answered nothing")),
    ],
)
def test_silence_is_never_a_pass(silent: AgentResult, stage: LlmStage) -> None:
    """An agent that answers nothing has done nothing; the engine tries it again."""
    outcome, asked = handled([silent], {silent.text: None}, stage)
    assert outcome.status is Status.ERROR
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.error, len(asked)) == (FailureClass.AGENT, ErrorKind.EMPTY, 1)


def test_stages_of_an_agent_wait_for_its_quota_together() -> None:
    """Once one stage has run into a used-up quota, the next one of that agent is not even started."""
    agent = Agent([AgentResult(AgentStatus.ERROR, error=AgentError(ErrorKind.QUOTA, "usage limit reached", 60.0))])
    now = [100.0]
    handler = LlmHandler(lambda *_: agent, lambda _: "", lambda _: {}, lambda: now[0])
    record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd="/", version="0")
    job = Job(WORK, 1, 1, begin(record), Path("/nowhere"), lambda _: None, lambda _: None)
    first = asyncio.run(handler.run(job))
    now[0] = 130.0
    second = asyncio.run(handler.run(job))
    assert len(agent.asked) == 1
    for outcome, wait in ((first, 60.0), (second, 30.0)):
        assert isinstance(outcome, Outcome)
        assert outcome.failure is not None
        assert (outcome.status, outcome.failure.retry_after) == (Status.ERROR, wait)


@pytest.mark.parametrize("status", [AgentStatus.ERROR, AgentStatus.TIMEOUT, AgentStatus.IDLE])
def test_an_agent_that_failed_is_not_asked_again(status: AgentStatus) -> None:
    """A crash and a timeout are for the stage's own retry."""
    _, asked = handled([AgentResult(status, "half an ans")], {}, WORK)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("second", "response"),
    [
        ("As I said.\n[STATUS: fail]", "a.py:1 leaks, b.py:2 races\n\nAs I said.\n[STATUS: fail]"),
        ("a.py:1 leaks, b.py:2 races\n[STATUS: fail]", "a.py:1 leaks, b.py:2 races\n[STATUS: fail]"),
    ],
    ids=["a status alone", "all of it again"],
)
def test_what_a_review_found_before_it_was_asked_for_a_status_is_not_lost(second: str, response: str) -> None:
    """A second answer that is no repetition of the first stands behind it."""
    first = "a.py:1 leaks, b.py:2 races"
    outcome, asked = handled([said(first), said(second)], {first: None, second: None})
    assert (outcome.status, outcome.response) == (Status.FAIL, response)
    assert asked[0].artifacts != asked[1].artifacts, "what the first answer wrote is kept"


def test_a_review_without_status_is_asked_for_one() -> None:
    """004-34: exactly one marker is asked for."""
    outcome, asked = handled([said("hm"), said("[STATUS: success]")], {"hm": None, "[STATUS: success]": None})
    assert (outcome.status, outcome.source) == (Status.SUCCESS, StatusSource.MARKER)
    assert asked[1].prompt.endswith(STATUS_REQUEST)


def test_a_mere_success_does_not_wave_through_what_could_not_be_read() -> None:
    """6.6: findings were reported and nobody could read them, so a status alone is not a pass."""
    outcome, asked = handled([said("half"), said("[STATUS: success]")], {"half": BROKEN, "[STATUS: success]": BROKEN})
    assert (len(asked), outcome.status) == (2, Status.ERROR)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL


def test_a_second_answer_does_not_take_back_the_failure_of_the_first() -> None:
    """The worse of two answers wins."""
    first, second = "[STATUS: fail]\n[FAILURE_REASON: it leaks]\nhalf", "[STATUS: success]"
    outcome, _ = handled([said(first), said(second)], {first: BROKEN, second: Assessment(Status.SUCCESS)})
    assert (outcome.status, outcome.reason) == (Status.FAIL, "it leaks")
    assert first in outcome.response


def test_a_failure_told_in_words_the_second_time_is_one() -> None:
    """What fails may do so in words."""
    text = "[STATUS: fail]\n[FAILURE_REASON: it leaks]"
    outcome, _ = handled([said("half"), said(text)], {"half": BROKEN, text: BROKEN})
    assert (outcome.status, outcome.source, outcome.reason, outcome.failure) == (
        Status.FAIL,
        StatusSource.MARKER,
        "it leaks",
        None,
    )


def test_twice_unreadable_is_a_failure_of_the_protocol() -> None:
    """It is asked for once more, not for ever."""
    outcome, asked = handled([said("half"), said("half")], {"half": BROKEN})
    assert len(asked) == 2
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL
