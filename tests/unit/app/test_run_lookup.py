"""Which run a name means."""

import pytest

from pipeline.app.store import find_run
from pipeline.engine.ports import UnknownRun
from pipeline.errors import AwfError


def test_a_run_is_found_by_its_beginning() -> None:
    """A full id, a unique beginning, `latest` and `-` name a run."""
    runs = ["20261116-083012-aaaaa", "20261117-083012-bbbbb", "20261117-083012-b"]
    assert find_run("20261116", runs) == runs[0]
    assert find_run(runs[2], runs) == runs[2]
    assert find_run("latest", runs) == find_run("-", runs) == runs[2]


def test_an_unknown_run_brings_the_nearest() -> None:
    """A run that does not exist is refused with those that are like it, and so is a beginning of several."""
    runs = ["20261116-083012-aaaaa", "20261117-083012-bbbbb"]
    with pytest.raises(UnknownRun, match="no run") as unknown:
        find_run("20261116-083012-aaaab", runs)
    assert runs[0] in str(unknown.value.help)
    with pytest.raises(AwfError, match="2 runs begin"):
        find_run("2026", runs)
    with pytest.raises(AwfError) as several:
        find_run("r", ["rz", "ra", "rm"])
    assert several.value.help == "write more of the id: rm, ra, rz"  # the newest first, whatever they are called
    with pytest.raises(UnknownRun) as strange:
        find_run("0", ["rz", "ra", "rm"])
    assert strange.value.help == "the newest are rm, ra, rz"
    with pytest.raises(UnknownRun) as alike:
        find_run("run-0", ["run-1", "other", "run-3", "run-2"])
    assert alike.value.help == "did you mean run-2, run-3, run-1?"
    with pytest.raises(UnknownRun, match="no runs yet"):
        find_run("latest", [])
