"""The chart of a run: the workflow with the visits, results and transitions of the run so far."""

from collections import Counter
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from pipeline.app.history import VisitRecord, running_visits
from pipeline.app.overview import running_status
from pipeline.engine.state import RunStatus
from pipeline.graph.chart import Arrow, ArrowKey
from pipeline.graph.svg import RunOverlay, StageMark, draw_run, place_chart
from pipeline.language.edges import EdgeRole
from pipeline.text import plural
from pipeline.web.html import GLYPHS, url
from pipeline.web.store import RunSnapshot


def draw_chart(run: RunSnapshot, store: str) -> Markup:
    """The chart as SVG, with links from its stages to their visits. The drawing escapes every text in it."""
    chart = place_chart(run.state.workflow)
    arrows = [arrow for arrow, _ in chart.arrows]
    taken = [key for visit in run.visits if (key := _taken_arrow(visit, arrows))]
    overlay = RunOverlay(dict(_stage_marks(run, store)), Counter(taken), taken[-1] if taken else None)
    return Markup(draw_run(chart, overlay))  # noqa: S704 - as above


def _taken_arrow(visit: VisitRecord, arrows: Iterable[Arrow]) -> ArrowKey | None:
    """The arrow that a visit left by; a gate that sends a run back uses another arrow to the same stage."""
    chosen = visit.chosen
    if chosen is None or chosen.target is None:
        return None
    roles = [arrow.role for arrow in arrows if (arrow.source, arrow.target) == (visit.stage, chosen.target)]
    if not roles:
        return None
    return (visit.stage, chosen.target, EdgeRole(chosen.role) if chosen.role in roles else roles[0])


def _stage_marks(run: RunSnapshot, store: str) -> Iterator[tuple[str, StageMark]]:
    state, current = run.state, dict(_current_stages(run))
    branches = state.progress.branches  # those of a running parallel stage are counted when it is done
    for stage in state.workflow.stages:
        errored = stage.id in state.progress.errors
        started = current.get(stage.id, RunStatus.PAUSED) != RunStatus.PAUSED  # a limit stops a stage before it starts
        visits = state.visits.get(stage.id, 0) + (started or errored or stage.id in branches)
        ended = branches[stage.id].outcome.status if stage.id in branches else state.outcomes.get(stage.id)
        status = "error" if errored else current.get(stage.id) or ended
        if status is None:
            yield stage.id, StageMark("idle", "not visited")
            continue
        glyph, kind = GLYPHS[status]
        css = f"{kind} current" if stage.id in current else kind
        sign = f"{glyph} {status}" if errored else glyph if visits < 2 else f"{glyph} ×{visits}"
        words = f"{status.replace('_', ' ')}, {plural(visits, 'visit')}"
        at = "" if run.is_latest else run.position
        link = url("s", store, "runs", state.run_id, stage=stage.id, at=at) + "#visits"
        yield stage.id, StageMark(css, words, sign, link)


def _current_stages(run: RunSnapshot) -> Iterator[tuple[str, str]]:
    """The stages at which the run is, with its status."""
    state = run.state
    if state.status.final:
        return
    status = running_status(driven=run.driven) if state.status is RunStatus.RUNNING else str(state.status)
    yield state.cursor.stage, status
    for stage, _ in running_visits(state):
        yield stage, status
