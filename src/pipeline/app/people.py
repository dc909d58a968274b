"""Who answers for a person when none sits at the terminal: a file of answers, or a word given in advance."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.engine.outcome import Source
from pipeline.errors import AwfError
from pipeline.handlers.human import People, Question, Reply
from pipeline.language.model import HumanStage, Workflow
from pipeline.language.names import did_you_mean

_EXAMPLE = 'write {"stage": ["option", {"option": "revise", "feedback": "why"}]}, one for each visit'


class Answers:
    """Answers by stage and visit: an option's key, or an object with `option` and `feedback`."""

    def __init__(self, answers: Mapping[str, Sequence[Any]]) -> None:
        self._answers = answers

    async def ask(self, question: Question) -> Reply | None:
        given = self._answers.get(question.stage, ())
        if question.visit > len(given):
            return None
        answer = given[question.visit - 1]
        if not isinstance(answer, dict):
            return Reply(str(answer))
        return Reply(answer["option"], answer.get("feedback", ""))


class AutoApprove:
    """Takes the approving option, and says that nobody was asked."""

    async def ask(self, question: Question) -> Reply | None:
        return Reply(question.approving[0].key, "approved in advance", Source.OVERRIDE)


class FirstOf:
    """Asks one after the other until somebody answers."""

    def __init__(self, people: Sequence[People]) -> None:
        self._people = people

    async def ask(self, question: Question) -> Reply | None:
        for person in self._people:
            reply = await person.ask(question)
            if reply is not None:
                return reply
        return None


def read_answers(text: str) -> dict[str, list[Any]]:
    """The answers of a file, or an error that says what is wrong with them."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"the answers are not JSON: {error}", help=_EXAMPLE) from None
    if not isinstance(data, dict):
        raise AwfError("the answers are no object with the names of stages", help=_EXAMPLE)
    return {stage: _checked(stage, given) for stage, given in data.items()}


def _checked(stage: str, given: Any) -> list[Any]:
    answers = given if isinstance(given, list) else [given]
    for number, answer in enumerate(answers, 1):
        whole = isinstance(answer, dict) and isinstance(answer.get("option"), str)
        words = answer if isinstance(answer, list) else [answer]  # a triage takes several at a visit
        if not all(isinstance(word, str) for word in words) and not (whole and set(answer) <= {"option", "feedback"}):
            said = (
                f'answer {number} for "{stage}" is neither an option\'s key nor an object with "option" and "feedback"'
            )
            raise AwfError(said, help=_EXAMPLE)
    return answers


def check_answers(answers: Mapping[str, Sequence[Any]], workflow: Workflow) -> None:
    """Refuse an answer that its stage cannot take: when it is reached, hours later, that would end the run."""
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            for number, answer in enumerate(answers.get(stage.id, ()), 1):
                _check_answer(stage, number, answer if isinstance(answer, dict) else {"option": str(answer)})


def _check_answer(stage: HumanStage, number: int, answer: Mapping[str, str]) -> None:
    option, keys = answer["option"], [option.key for option in stage.options]
    said = f'answer {number} for "{stage.id}" is "{option}", '
    if option not in keys:
        help = did_you_mean(option, keys) or "name an option by its key"
        raise AwfError(f"{said}which is none of its options {', '.join(keys)}", help=help)
    if option in stage.require_feedback_on and not answer.get("feedback", "").strip():
        raise AwfError(f"{said}which needs feedback, and none is given", help=_EXAMPLE)
