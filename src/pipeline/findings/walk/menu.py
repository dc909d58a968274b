"""What a person can choose. The order is fixed, one option is marked, and what is chosen is a key, never a label."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.sinks import Sinks

RECOMMENDED = " (recommended)"
NO_SINK = "Defer unavailable on this platform — no durable tracker sink detected."
_NO_SINK_AT_ALL = "Defer unavailable — no durable tracker sink detected on this platform."


class OptionKey(StrEnum):
    """What an option is known by."""

    APPLY = "apply"
    ACKNOWLEDGE = "acknowledge"
    DEFER = "defer"
    SKIP = "skip"
    REST = "rest"  # this one and all that follow, as recommended
    PROCEED = "proceed"
    CANCEL = "cancel"
    RETRY = "retry"  # the same tracker
    FALLBACK = "fallback"  # the next one
    CONVERT = "convert"  # a ticket that cannot be made, into a skip
    EACH = "each"
    ALL = "all"
    FILE = "file"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Option:
    """One thing to choose."""

    key: OptionKey
    label: str
    marked: bool = False

    def __str__(self) -> str:
        """As it is shown."""
        return f"{self.label}{RECOMMENDED}" if self.marked else self.label


GO_OR_NOT = (Option(OptionKey.PROCEED, "Proceed"), Option(OptionKey.CANCEL, "Cancel"))
_LABELS = {
    OptionKey.APPLY: "Apply the proposed fix",
    OptionKey.ACKNOWLEDGE: "Acknowledge — mark as reviewed",
    OptionKey.SKIP: "Skip — don't apply, don't track",
    OptionKey.REST: "LFG the rest — apply the agent's best judgment to this and remaining findings",
}
_ALSO = {OptionKey.REST: ("lfg", "lfg the rest")}  # shorter names that are understood


def ticket(sinks: Sinks) -> str:
    """What a ticket is called, with its tracker where that is sure: `Linear ticket` or `ticket`."""
    return f"{sinks.named} ticket" if sinks.named else "ticket"


def legal(action: Action, sinks: Sinks, *, advisory: bool) -> Action:
    """A recommendation that is in the menu."""
    if advisory and action is Action.APPLY:
        return Action.ACKNOWLEDGE
    missing = action is Action.DEFER and not sinks.any_sink_available
    return Action.SKIP if missing or (action is Action.ACKNOWLEDGE and not advisory) else action


def menu(total: int, sinks: Sinks, marked: Action | OptionKey, *, advisory: bool) -> tuple[Option, ...]:
    """The options for one of so many findings; exactly one is marked."""
    keys = [OptionKey.ACKNOWLEDGE if advisory else OptionKey.APPLY]
    keys += [OptionKey.DEFER] if sinks.any_sink_available else []
    keys += [OptionKey.SKIP]
    keys += [OptionKey.REST] if total > 1 else []
    wanted = OptionKey(legal(marked, sinks, advisory=advisory) if isinstance(marked, Action) else marked)
    chosen = wanted if wanted in keys else OptionKey.SKIP
    labels = {**_LABELS, OptionKey.DEFER: f"Defer — file a {ticket(sinks)}"}
    return tuple(Option(key, labels[key], marked=key is chosen) for key in keys)


def failed_menu(tracker: str) -> tuple[Option, ...]:
    """The options after a ticket could not be made."""
    return (
        Option(OptionKey.RETRY, f"Retry on {tracker}"),
        Option(OptionKey.FALLBACK, "Fall back to next sink"),
        Option(OptionKey.CONVERT, "Convert to Skip — record the failure"),
    )


def routing(total: int, sinks: Sinks) -> tuple[str, tuple[Option, ...]]:
    """The question that comes before any finding, and its options."""
    stem = f"What should the agent do with the remaining {total} findings?"
    file = f"File a {sinks.named} ticket per finding" if sinks.named else "File an issue per finding"
    options = (
        Option(OptionKey.EACH, "Review each finding one by one — accept the recommendation or choose another action"),
        Option(OptionKey.ALL, "LFG. Apply the agent's best-judgment action per finding"),
        Option(OptionKey.FILE, f"{file} without applying fixes"),
        Option(OptionKey.REPORT, "Report only — take no further action"),
    )
    if sinks.any_sink_available:
        return stem, options
    return f"{stem}\n{_NO_SINK_AT_ALL}", tuple(option for option in options if option.key is not OptionKey.FILE)


def chosen(options: Iterable[Option], typed: str) -> OptionKey | None:
    """The option that is meant by a key, its first letter, its number or its label; None when none is."""
    word = " ".join(typed.casefold().split()).removesuffix(RECOMMENDED)
    for number, option in enumerate(options, 1):
        names = {option.key, option.key[0], str(number), option.label.casefold(), *_ALSO.get(option.key, ())}
        if word in names:
            return option.key
    return None
