"""Text inside XML: everything written by an author is data here, never markup."""

import html
import re

from pipeline.graph.draw.shapes import number
from pipeline.graph.draw.wording import clean, shorten
from pipeline.graph.layout.geometry import Point

MAX_NOTE = 300  # characters of what shows when the pointer rests on something

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # by XML 1.0, in any spelling
_BREAKS = str.maketrans({"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})


def escape(content: str) -> str:
    """A text as the content of an element or the value of an attribute."""
    return html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", content), quote=True).translate(_BREAKS)


def note(content: str) -> str:
    """A title: what an element says of itself when asked."""
    return f"<title>{escape(shorten(clean(content), MAX_NOTE))}</title>"


def text(content: str, at: Point, css: str) -> str:
    """A line of text that starts at a point, or stands around it, as its class says."""
    return f'<text class="{css}" x="{number(at.x)}" y="{number(at.y)}">{escape(content)}</text>'
