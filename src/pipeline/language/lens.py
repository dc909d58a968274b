"""What a review looks at: the one word of a workflow that findings keep."""

from enum import StrEnum


class Lens(StrEnum):
    """What a review looks at."""

    CODE_REVIEW = "code-review"
    QA = "qa"  # tests, and how the product behaves
    PM = "pm"  # requirements, and what users get
