"""The picture of a run: where it has been, how often and with what result, and where it is."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from markupsafe import Markup

from pipeline.app.history import VisitRecord, running_visits
from pipeline.app.overview import running_status
from pipeline.engine.state import RunStatus
from pipeline.graph.chart import Arrow, ArrowKey
from pipeline.graph.svg import PlacedChart, RunOverlay, StageMark, draw_run, place_chart
from pipeline.language.edges import EdgeRole
from pipeline.language.model import Workflow
from pipeline.text import plural
from pipeline.web.following import RunSnapshot
from pipeline.web.rendering import GLYPHS, url


def picture(seen: RunSnapshot, store: str) -> Markup:
    """The picture, with links from its stages to their visits. Every text in it is escaped where it is drawn."""
    workflow = seen.state.workflow
    placed = _placed(_Drawn(workflow.model_dump_json(), workflow))
    lines = [line for line, _ in placed.arrows]
    ways = [way for visit in seen.visits if (way := _way(visit, lines))]
    marks = RunOverlay(dict(_marks(seen, store)), Counter(ways), ways[-1] if ways else None)
    return Markup(draw_run(placed, marks))  # noqa: S704 - as above


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What of a workflow is drawn; two that are drawn the same are the same."""

    text: str
    workflow: Workflow = field(compare=False)


@lru_cache(maxsize=16)
def _placed(drawn: _Drawn) -> PlacedChart:
    """Where everything is: the same for all runs of a workflow, and for all moments of a run."""
    return place_chart(drawn.workflow)


def _way(visit: VisitRecord, lines: Iterable[Arrow]) -> ArrowKey | None:
    """The line that a visit was left by; a gate that sends a run back goes where some other line leads."""
    chosen = visit.chosen
    if chosen is None or chosen.target is None:
        return None
    roles = [line.role for line in lines if (line.source, line.target) == (visit.stage, chosen.target)]
    if not roles:
        return None
    return (visit.stage, chosen.target, EdgeRole(chosen.role) if chosen.role in roles else roles[0])


def _marks(seen: RunSnapshot, store: str) -> Iterator[tuple[str, StageMark]]:
    state, current = seen.state, dict(_current(seen))
    branches = state.progress.branches  # of the parallel stage that runs: they count when it is done
    for stage in state.workflow.stages:
        errored = stage.id in state.progress.errors
        begun = current.get(stage.id, RunStatus.PAUSED) != RunStatus.PAUSED  # a limit stops it before it begins
        visits = state.visits.get(stage.id, 0) + (begun or errored or stage.id in branches)
        done = branches[stage.id].outcome.status if stage.id in branches else state.outcomes.get(stage.id)
        word = "error" if errored else current.get(stage.id) or done
        if word is None:
            yield stage.id, StageMark("idle", "not visited")
            continue
        glyph, kind = GLYPHS[word]
        css = f"{kind} current" if stage.id in current else kind
        sign = f"{glyph} {word}" if errored else glyph if visits < 2 else f"{glyph} ×{visits}"
        words = f"{word.replace('_', ' ')}, {plural(visits, 'visit')}"
        at = "" if seen.now else seen.position
        yield (
            stage.id,
            StageMark(css, words, sign, url("s", store, "runs", state.run_id, stage=stage.id, at=at) + "#visits"),
        )


def _current(seen: RunSnapshot) -> Iterator[tuple[str, str]]:
    """Where the run is, and how it stands there."""
    state = seen.state
    if state.status.final:
        return
    word = running_status(driven=seen.driven) if state.status is RunStatus.RUNNING else str(state.status)
    yield state.cursor.stage, word
    for stage, _ in running_visits(state):
        yield stage, word
