"""Pages for people, made from the templates in this directory. Nothing that a value says can become markup.

A template cannot forget to escape: whatever it prints is escaped for the format of the page, HTML or Markdown. Only
what another template or one of the two filters for Markdown made is printed as it is.
"""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.text import sanitize_block, sanitize_line

if TYPE_CHECKING:
    from jinja2 import Environment

_MARKUP = re.compile(r"[\\`*_\[\]<>~&$]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_LIST_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")
_MENTION = re.compile(r"([@#])")  # where the page is shown, these call a person or an issue, escaped or not


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of values; `.html.j2` is HTML, and `.md.j2` is Markdown."""
    escape = escape_html if template.endswith(".html.j2") else escape_markdown
    return _environment(escape).get_template(template).render(values)


def escape_html(text: str) -> str:
    """Return text on one line that an HTML page shows as it is."""
    return html.escape(sanitize_line(text))


def escape_markdown(text: str) -> str:
    """Return text on one line that a Markdown page shows as it is: no heading, list, link, table or mention."""
    escaped = _LIST_NUMBER.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", sanitize_line(text)))
    return _MENTION.sub(r"\1<!-- -->", escaped).replace("|", "&#124;")  # readers differ on a backslash before it


def code_span(text: str) -> str:
    """Return text as Markdown code on one line; a backtick in it cannot end it."""
    line = sanitize_line(text) or " "  # two backticks without anything between them would begin one
    marks = "`" * (_longest_run(line) + 1)
    return f"{marks} {line} {marks}" if "`" in line else f"`{line}`"


def fenced(lines: Sequence[str]) -> str:
    """Return lines of text as a Markdown block, whose fence is longer than any in them."""
    text = sanitize_block("\n".join(lines))
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}text\n{text}\n{marks}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


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
    environment.filters["code"] = lambda text: Markup(code_span(text))  # noqa: S704
    environment.filters["fenced"] = lambda lines: Markup(fenced(lines))  # noqa: S704
    return environment
