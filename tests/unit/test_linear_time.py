"""What agents, reports and workflow files say is read in time that grows with its length, and not faster."""

import json
import time
from collections.abc import Callable
from itertools import product

import pytest

from pipeline.findings.fingerprints import norm_quote
from pipeline.findings.formats import FORMATS, detect, doubts
from pipeline.findings.formats.answer import Answer
from pipeline.findings.formats.listed_items import listed_items
from pipeline.findings.rulings import read_said
from pipeline.handlers.markers import LONGEST_ANSWER, StatusMarkers, length_problem, read_markers
from pipeline.handlers.tool import failure_headline
from pipeline.text import did_you_mean

SIZE = 10_000  # characters
FLOOR = 0.005  # seconds of processor time below which nothing can be told
UNITS = (
    *("[", "{", '{"', '{"a":', '{"a":1', '{"a":"\n', '["', "```", "```\n", "`", "``x`", "~~~\n", ">", "> ", " ", "\n"),
    *("[STATUS:", "[STATUS: a ", "[FAILURE_REASON: ", "[FAILURE_REASON: [", "[FINDING ", "[FINDING 1: fixed "),
    *('"findings":', '{"reviewer" ', '{"reviewer":1,"findings":[', "\\", ".", "/", " # ", "-- ", "1 ", "error ", "\t"),
    *(
        "<think>",
        "</think>",
        "| ",
        "|--",
        "- a: b\n",
        "- a: |\n",
        "I could not ",
        "P0 ",
        "no P0, ",
        "a ",
        " a\n",
        "not ",
    ),
)
BEGINNINGS = {
    "list": ("- a: b\n",),
    "status": ("[STATUS:", "[FAILURE_REASON:"),
    "rulings": ("[FINDING 1:",),
    "review": ("[x",),
    "mypy": ("a.py:1: error: ",),
}  # of texts for one reader; every reader is given texts without one, too


def _format(name: str) -> Callable[[str], object]:
    return lambda text: FORMATS[name].read(text.encode(), reviewer="r", root="/x")


def _evidence(text: str) -> object:
    return _format("review")(json.dumps({"reviewer": "r", "findings": [{"title": text, "evidence": [text]}]}))


def _failure(text: str) -> object:
    shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text).replace("<", "?")
    return _format("junit")(f"<testsuite><testcase name='a'><failure>{shown}</failure></testcase></testsuite>")


READERS: dict[str, Callable[[str], object]] = {
    "status": read_markers,
    "rulings": read_said,
    "answer": Answer,
    "list": listed_items,
    "refusal": doubts.refusal,
    "defect": doubts.named_blocker,
    "examined": doubts.not_looked,
    "digest": lambda text: failure_headline(text, "", "failed"),
    "quote": norm_quote.__wrapped__,
    "review": _evidence,
    "junit": _failure,
    "mypy": _format("mypy"),
    "sarif": _format("sarif"),
    "detect": lambda text: detect(text.encode()),
    "name": lambda text: did_you_mean(text, ("stage", text[1:])),
}


def spent(read: Callable[[str], object], text: str) -> float:
    """The processor time of one reading."""
    began = time.process_time()
    read(text)
    return time.process_time() - began


@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_about_four_times_as_long(reader: str) -> None:
    """No text makes reading it superlinear, whatever it repeats."""
    read = READERS[reader]
    slow = []
    for beginning, unit in product(("", *BEGINNINGS.get(reader, ())), UNITS):
        short, long = (beginning + unit * (size // len(unit)) for size in (SIZE, 4 * SIZE))
        took = spent(read, long)
        if took <= 8 * FLOOR or took <= 8 * spent(read, short):
            continue
        most = 8 * max(spent(read, short), FLOOR)  # perhaps it was a pause
        if min(spent(read, long) for _ in range(3)) > most:
            slow.append((beginning, unit))
    assert slow == []


def test_a_hint_costs_little_however_long_the_names_are() -> None:
    """A name of a megabyte is compared with nothing, and a short one not with every one of very many."""
    names = [f"stage_{number}" for number in range(10_000)]
    assert did_you_mean("stage_" * 200_000, names) is None
    assert did_you_mean("stag_7", names) == 'did you mean "stage_7"?'
    assert did_you_mean("x" * 50, (f"{'x' * 60}{number}" for number in range(100_000))) is not None


def test_an_answer_that_is_too_long_is_a_problem() -> None:
    """It is not read in part: a status at its end is not taken from it, nor one at its beginning."""
    passes = "[STATUS: success]"
    for answer in (passes + "x" * LONGEST_ANSWER, "x" * LONGEST_ANSWER + passes):
        assert length_problem(answer)
        assert read_markers(answer) == StatusMarkers()
    assert not length_problem("x" * (LONGEST_ANSWER - len(passes)) + passes)
