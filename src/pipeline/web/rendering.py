"""Pages and their parts from templates. Every text is escaped; nothing in a template may switch that off."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pipeline.app.overview import error_kind
from pipeline.text import (
    format_age,
    format_clock,
    format_cost,
    format_count,
    format_duration,
    plural,
    sanitize_block,
    sanitize_line,
    truncate,
    visit_label,
)

HERE = Path(__file__).parent
GLYPHS = {  # a state is always a word with a sign, never a colour alone
    "success": ("✓", "good"),
    "partial_success": ("◐", "good"),
    "fail": ("✗", "bad"),
    "error": ("!", "bad"),
    "unreadable": ("✗", "bad"),
    "running": ("●", "active"),
    "waiting": ("?", "other"),
    "paused": ("‖", "other"),
    "interrupted": ("◌", "other"),
    "unknown": ("…", "other"),
    "cancelled": ("–", "quiet"),
    "skipped": ("–", "quiet"),
    "retry": ("↻", "other"),
    # of findings
    "open": ("○", "bad"),
    "reopened": ("↻", "bad"),
    "uncertain": ("?", "other"),
    "fix_claimed": ("◐", "other"),
    "verified_fixed": ("✓", "good"),
    "false_positive": ("–", "quiet"),
    "wont_fix": ("–", "quiet"),
    # how grave they are
    "critical": ("▲", "bad"),
    "high": ("▲", "bad"),
    "medium": ("◆", "other"),
    "low": ("▽", "quiet"),
    "info": ("·", "quiet"),
}


def url(*parts: object, **query: object) -> str:
    """An address on this site from the parts of its path; parts of a query that say nothing are left out."""
    asked = urlencode({key: value for key, value in query.items() if value not in ("", None)})
    return "/" + "/".join(quote(str(part), safe="") for part in parts) + (f"?{asked}" if asked else "")


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _size(count: int) -> str:
    """A number of bytes in few letters."""
    for unit, size in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _limit(value: float, name: str) -> str:
    """A limit's value in its own unit."""
    return (
        format_duration(value)
        if name == "max_duration"
        else format_cost(value)
        if name == "max_cost_usd"
        else f"{value:g}"
    )


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (
        format_age,
        format_count,
        sanitize_line,
        plural,
        truncate,
        visit_label,
        format_cost,
        format_duration,
        sanitize_block,
    )
    made.filters |= {word.__name__: word for word in words} | {
        "iso": _iso,
        "clock": _clock,
        "short_clock": format_clock,
        "kind": error_kind,
        "size": _size,
        "limit": _limit,
    }
    made.tests["match_start"] = str.startswith
    made.globals |= {"url": url, "now": time.time, "glyphs": GLYPHS}
    made.globals["ui"] = made.get_template("ui.html").module  # the macros, for parts too
    return made


_templates = _environment()


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A page; with `?part=NAME`, that block of it alone, which is how a live part is fetched again."""
    found = _templates.get_template(template)
    given = {"desk": None, "store": None, "here": "", "nav": (), **_common(request), **values}
    part = found.blocks.get(request.query_params.get("part", ""))
    text = found.render(given) if part is None else "".join(part(found.new_context(given)))
    return HTMLResponse(text, status)


def _common(request: Request) -> dict[str, Any]:
    return {"desk": request.app.state.desk, "nav": request.app.state.nav} if "app" in request.scope else {}


def whole_number(text: str) -> int | None:
    """The number that a part of an address is, or None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def wants_json(request: Request) -> bool:
    """Whether whoever asks is a program."""
    accepts = request.headers.get("accept", "").partition(",")[0].strip()
    return request.query_params.get("format") == "json" or accepts == "application/json"
