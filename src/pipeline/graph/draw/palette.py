"""The colours of the kinds of stages, on a light and on a dark page."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Paint(NamedTuple):
    """What a box is painted with."""

    fill: str
    stroke: str
    ink: str


class Page(NamedTuple):
    """What everything else is painted with."""

    card: str
    border: str
    ink: str
    quiet: str
    line: str


LIGHT: Mapping[str, Paint] = MappingProxyType(
    {
        "llm": Paint("#eef2ff", "#6366f1", "#312e81"),
        "tool": Paint("#ecfdf5", "#059669", "#064e3b"),
        "human": Paint("#fff7ed", "#ea580c", "#7c2d12"),
        "decision": Paint("#fdf4ff", "#c026d3", "#701a75"),
        "triage": Paint("#fefce8", "#ca8a04", "#713f12"),
        "parallel": Paint("#f8fafc", "#94a3b8", "#334155"),
        "workspace": Paint("#ecfeff", "#0891b2", "#164e63"),
        "exit": Paint("#334155", "#334155", "#f8fafc"),
        "missing": Paint("#fef2f2", "#dc2626", "#7f1d1d"),
    }
)
DARK: Mapping[str, Paint] = MappingProxyType(
    {
        "llm": Paint("#1e1f4b", "#818cf8", "#e0e7ff"),
        "tool": Paint("#06302a", "#34d399", "#d1fae5"),
        "human": Paint("#3b1d0c", "#fb923c", "#ffedd5"),
        "decision": Paint("#3a0d40", "#e879f9", "#fae8ff"),
        "triage": Paint("#33260a", "#facc15", "#fef9c3"),
        "parallel": Paint("#161d29", "#64748b", "#e2e8f0"),
        "workspace": Paint("#0b2f3a", "#22d3ee", "#cffafe"),
        "exit": Paint("#cbd5e1", "#cbd5e1", "#0f172a"),
        "missing": Paint("#3f1212", "#f87171", "#fee2e2"),
    }
)
LIGHT_PAGE = Page(card="#ffffff", border="#e2e8f0", ink="#0f172a", quiet="#64748b", line="#64748b")
DARK_PAGE = Page(card="#0f141c", border="#2a3441", ink="#f1f5f9", quiet="#94a3b8", line="#8593a8")
