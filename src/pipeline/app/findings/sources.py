"""The files that reviewers and tools left, and what they say.

A file that is not there is a mistake of whoever asked. One that cannot be used is an answer that is no answer: it is
counted as such, and the pass is incomplete.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import AwfError
from pipeline.findings.claims import Claim, Rejected, Return
from pipeline.findings.codecs import FORMATS, detect
from pipeline.findings.codecs.reading import LARGEST, malformed
from pipeline.findings.model import Lens

AUTO = "auto"
STDIN = "-"
_NAMELESS = ("sarif", "junit", "rdjson", "review", "verdict")  # formats, not tools: their name says nothing of who


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one answer, and what to call whoever gave it."""

    name: str
    stem: str
    data: bytes = b""
    problem: str = ""  # why there are no bytes


def read(names: Sequence[str], stdin: BinaryIO, *, largest: int = LARGEST) -> list[Source]:
    """The files of some names. Where any is missing nothing is read; one that cannot be read has a problem."""
    paths = [Path(name) for name in names if name != STDIN]
    if lost := [str(path) for path in paths if not path.exists()]:
        raise AwfError(f"there is no file {' or '.join(lost)}", help="nothing was recorded; check the names")
    if paths and all(path.is_dir() for path in paths) and STDIN not in names:
        raise AwfError(f"{paths[0]} is a directory", help="name the files in it; nothing was recorded")
    if list(names).count(STDIN) > 1:
        raise AwfError("standard input can be read only once", help='give "-" once; nothing was recorded')
    return [_stdin(stdin, largest) if name == STDIN else _file(Path(name), largest) for name in names]


def decoded(sources: Iterable[Source], root: Path, *, format: str, reviewer: str, lens: Lens | None) -> list[Return]:
    """What the files say, each item under an id of its own."""
    returns = [replace(_decode(source, format, reviewer, str(root)), file=source.stem or "stdin") for source in sources]
    return numbered([_through(answer, lens) for answer in returns])


def numbered(returns: Iterable[Return]) -> list[Return]:
    """Returns whose items go on counting where an earlier file of the same reviewer ended."""
    taken, done = Counter[str](), list[Return]()
    for answer in returns:
        before = taken[answer.reviewer]
        taken[answer.reviewer] += answer.inputs
        done.append(_shifted(answer, before) if before else answer)
    return done


def _stdin(stdin: BinaryIO, largest: int) -> Source:
    return _sized(Source("standard input", "", stdin.read(largest + 1)), largest)


def _file(path: Path, largest: int) -> Source:
    try:
        with path.open("rb") as file:
            return _sized(Source(str(path), path.stem, file.read(largest + 1)), largest)
    except OSError as error:
        return Source(str(path), path.stem, problem=f"{path} cannot be read: {error.strerror}")


def _sized(source: Source, largest: int) -> Source:
    if len(source.data) <= largest:
        return source
    problem = f"{source.name} has more than {largest:,} bytes; split it"
    return Source(source.name, source.stem, problem=problem)


def _decode(source: Source, format: str, reviewer: str, root: str) -> Return:
    name = reviewer or source.stem
    if source.problem:
        return malformed(name or "stdin", "", source.problem)
    if not source.data.strip():
        return malformed(name or "stdin", "", f"{source.name} is empty")
    kind = detect(source.data, source.name) if format == AUTO else format
    if kind is None:
        problem = f"the format of {source.name} is not known; say it with --format {'|'.join(FORMATS)}"
        return malformed(name or "stdin", "", problem)
    answer = FORMATS[kind](source.data, reviewer=reviewer, root=root)
    nameless = answer.reviewer in ("", kind) and (kind in _NAMELESS or not answer.reviewer)
    if reviewer or not nameless:
        return answer
    return FORMATS[kind](source.data, reviewer=source.stem or kind, root=root)


def _through(answer: Return, lens: Lens | None) -> Return:
    if lens is None:
        return answer
    return replace(answer, findings=tuple(replace(claim, lens=lens) for claim in answer.findings))


def _shifted(answer: Return, by: int) -> Return:
    claims = tuple(replace(claim, input_id=_later(claim, by)) for claim in answer.findings)
    rejected = tuple(replace(item, input_id=_later(item, by)) for item in answer.unreadable)
    return replace(answer, findings=claims, unreadable=rejected)


def _later(item: Claim | Rejected, by: int) -> str:
    prefix, _, number = item.input_id.rpartition("#")
    return f"{prefix}#{int(number) + by}"
