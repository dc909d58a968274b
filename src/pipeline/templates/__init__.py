"""Pages for people, made from the templates in this directory. Nothing that a value says can become markup.

A template cannot forget to escape: whatever it prints is escaped for the format of the page, HTML or Markdown. Only
what another template or one of the two filters for Markdown made is printed as it is.
"""

import html
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import text

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of values; `.html.j2` is HTML, and `.md.j2` is Markdown."""
    escape = escape_html if template.endswith(".html.j2") else escape_markdown
    return _environment(escape).get_template(template).render(values)


def escape_html(value: str) -> str:
    """Return a value on one line that an HTML page shows as it is."""
    return html.escape(text.sanitize_line(value))


def escape_markdown(value: str) -> str:
    """Return a value on one line that a Markdown page shows as it is: no heading, list, link, table or mention."""
    return text.escape_markdown(text.sanitize_line(value))


def code_span(value: str) -> str:
    """Return a value as Markdown code on one line."""
    return text.code_span(text.sanitize_line(value))


def fenced(lines: Sequence[str]) -> str:
    """Return lines as a Markdown block that none of them can end."""
    return text.fence(text.sanitize_block("\n".join(lines)), "text")


@cache
def _environment(escape: Callable[[str], str]) -> "Environment":
    """Return what renders templates of one format; jinja2 is loaded here, because few commands render a page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    def escape_value(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape(str(value)))  # noqa: S704 - it is escaped

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # marks what templates print as safe, so that it is not escaped again
        finalize=escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = lambda value: Markup(code_span(value))  # noqa: S704
    environment.filters["fenced"] = lambda lines: Markup(fenced(lines))  # noqa: S704
    return environment
