"""The names that findings have outside this package: context keys, and the kind of their event."""

FINDINGS_CHANGED = "findings_changed"  # the event after a commit that added or cleared reports


class ReviewKey:
    """The context keys of findings."""

    REPORTS = "review.findings"  # the open reports
    CHOSEN = "review.chosen"  # the ids of the findings that the next fix stage is given, and no others
    VERDICT = "review.verdict"
    STALLED = "review.stalled"  # why another round of fixing would not help
