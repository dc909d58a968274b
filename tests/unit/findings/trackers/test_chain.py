"""Which tracker is used, when it is opened, and what happens if it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import FakeGh, Make

from pipeline.errors import AwfError
from pipeline.findings.lines import Line
from pipeline.findings.trackers import TRACKERS, TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import (
    NO_TRACKER,
    Filed,
    OpenTracker,
    TicketFailed,
    Tracker,
    TrackerContext,
    TrackerStatus,
)


@dataclass
class Fake:
    """A tracker that does as a test says."""

    name: str
    broken: str = ""
    filed: list[str] = field(default_factory=list)

    def file(self, line: Line) -> Filed | TicketFailed:
        """Take a line of work, or refuse it."""
        if self.broken:
            return TicketFailed(self.broken)
        self.filed.append(line.id)
        return Filed(f"{self.name}/{line.id}")


@dataclass
class Fakes:
    """Trackers in an order, and which of them were opened."""

    trackers: list[Fake]
    unusable: dict[str, str] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def registry(self) -> Mapping[str, OpenTracker]:
        """The functions that open them, by name."""
        return {fake.name.lower(): self._open(fake) for fake in self.trackers}

    def _open(self, fake: Fake) -> OpenTracker:
        def open_tracker(context: TrackerContext) -> Tracker | TicketFailed:
            del context
            self.opened.append(fake.name)
            return TicketFailed(self.unusable[fake.name]) if fake.name in self.unusable else fake

        return open_tracker


@pytest.fixture
def nowhere(tmp_path: Path) -> TrackerContext:
    """An empty directory."""
    return TrackerContext(tmp_path, tmp_path / ".awf", {})


def three() -> Fakes:
    """Three trackers that work."""
    return Fakes([Fake("Linear"), Fake("GitHub"), Fake("Files")])


def test_no_tracker_is_opened_before_it_is_needed(nowhere: TrackerContext) -> None:
    """Each is opened at most once in a session."""
    fakes = three()
    chain = TrackerChain(nowhere, "linear", fakes.registry())
    assert fakes.opened == []
    assert [chain.status() for _ in range(3)] == [TrackerStatus("Linear", certain=True)] * 3
    assert fakes.opened == ["Linear"]


def test_a_named_tracker_comes_first_and_its_name_is_shown(nowhere: TrackerContext, make: Make) -> None:
    """Its name is in the labels, and tickets go to it."""
    fakes = three()
    chain = TrackerChain(nowhere, "github", fakes.registry())
    assert chain.status().label == "GitHub ticket"
    assert chain.file(make()) == Filed("GitHub/fnd_0badcafe")


def test_a_tracker_that_nobody_named_has_a_generic_label(nowhere: TrackerContext) -> None:
    """It may not be the one that the project uses."""
    sinks = TrackerChain(nowhere, "", three().registry()).status()
    assert sinks == TrackerStatus("Linear", certain=False)
    assert sinks.label == "ticket"


def test_a_named_tracker_that_cannot_be_used_is_an_error(nowhere: TrackerContext) -> None:
    """A named tracker must work; without a name the next one that works is used."""
    fakes = Fakes(three().trackers, {"Linear": "no key", "GitHub": "not logged in"})
    with pytest.raises(AwfError, match="no key"):
        TrackerChain(nowhere, "linear", fakes.registry()).status()
    assert TrackerChain(nowhere, trackers=fakes.registry()).status() == TrackerStatus("Files", certain=False)


def test_a_failed_named_tracker_is_not_named_again(nowhere: TrackerContext, make: Make) -> None:
    """For this session; it may still be retried."""
    fakes = three()
    fakes.trackers[0].broken = "HTTP 500"
    chain = TrackerChain(nowhere, "linear", fakes.registry())
    assert chain.file(make()) == TicketFailed("HTTP 500")
    assert chain.status() == TrackerStatus("Linear", certain=False)
    fakes.trackers[0].broken = ""
    assert chain.file(make()) == Filed("Linear/fnd_0badcafe")
    assert not chain.status().certain


def test_falling_back_leads_to_the_next_tracker_and_never_back(nowhere: TrackerContext, make: Make) -> None:
    """A tracker that was given up stays so; after the last there is none."""
    fakes = three()
    chain = TrackerChain(nowhere, "github", fakes.registry())
    chain.fall_back()
    assert chain.status().name == "Linear"
    chain.fall_back()
    assert chain.file(make()) == Filed("Files/fnd_0badcafe")
    for _ in range(2):
        chain.fall_back()
        assert chain.status() == NO_TRACKER
    assert isinstance(chain.file(make()), TicketFailed)
    assert fakes.opened == ["GitHub", "Linear", "Files"]


def test_an_unknown_name_is_an_error(nowhere: TrackerContext) -> None:
    """A misspelt tracker is not passed over."""
    with pytest.raises(AwfError) as raised:
        TrackerChain(nowhere, "gihtub")
    assert "gihtub" in raised.value.message
    assert "github" in str(raised.value.help)


def test_an_invalid_id_is_not_a_failure_of_the_tracker(nowhere: TrackerContext, make: Make) -> None:
    """The finding cannot be filed; the tracker is still named."""
    chain = TrackerChain(nowhere, "linear", three().registry())
    assert isinstance(chain.file(make("nonsense")), TicketFailed)
    assert chain.status().certain


def test_our_own_trackers_end_with_a_folder(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """GitHub if gh is logged in, else files in the store."""
    assert list(TRACKERS) == ["github", "folder"]
    assert TrackerChain(context).file(make()) == Filed("https://github.com/acme/shop/issues/1")
    gh.set(hosts=[])
    assert TrackerChain(context).file(make()) == Filed(str(context.store / "tickets" / "fnd_0badcafe.md"))
    assert TrackerChain(context, "folder").status() == TrackerStatus("local folder", certain=True)


def test_an_issue_that_cannot_be_created_becomes_a_file(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Such as in a repository without issues."""
    gh.set(fails={"issue create": "HTTP 410: Issues are disabled"})
    chain = TrackerChain(context, "github")
    assert chain.file(make()) == TicketFailed("HTTP 410: Issues are disabled")
    chain.fall_back()
    assert chain.file(make()) == Filed(str(context.store / "tickets" / "fnd_0badcafe.md"))


def test_trackers_of_plugins_come_first_and_replace_ours() -> None:
    """The folder always works: what came after it would never be tried."""
    theirs = lambda _context: TicketFailed("no")  # noqa: E731 - the shortest tracker
    assert list(all_trackers({"linear": theirs})) == ["linear", *TRACKERS]
    assert all_trackers({"github": theirs})["github"] is theirs
