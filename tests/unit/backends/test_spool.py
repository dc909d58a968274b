"""What is kept of a stream."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.backends.spool import TAIL_BYTES, Lines, Spool


def spooled(path: Path, *chunks: bytes, limit: int = 1000) -> tuple[bytes, str]:
    with Spool(path / "log", limit) as spool:
        for chunk in chunks:
            spool.write(chunk)
    return (path / "log").read_bytes(), spool.tail()


def test_the_tail_has_thirty_lines(tmp_path: Path) -> None:
    """The last 30 lines are remembered, the last line feed not counted."""
    _, tail = spooled(tmp_path, *(f"{number}\n".encode() for number in range(100)))
    assert tail.split("\n") == [str(number) for number in range(70, 100)]


@pytest.mark.parametrize("byte", [b"x", "é".encode(), "\N{SNOWMAN}".encode(), b"\xff"])
def test_the_tail_has_four_kilobytes(tmp_path: Path, byte: bytes) -> None:
    """A long line is cut at a whole character; what is no text does not make it longer."""
    _, tail = spooled(tmp_path, byte * 5000)
    assert TAIL_BYTES - 4 < len(tail.encode()) <= TAIL_BYTES
    assert set(tail) == set(byte.decode(errors="replace"))


def test_the_tail_is_of_all_that_was_written(tmp_path: Path) -> None:
    """What came after the limit is not on disk, but how it ended is known."""
    data, tail = spooled(tmp_path, b"first\n", b"second\n", limit=8)
    assert data == b"first\nse\n[5 more bytes were not kept: the limit is 8]\n"
    assert tail == "first\nsecond"


def test_a_limit_that_is_just_met_drops_nothing(tmp_path: Path) -> None:
    """Exactly as much as allowed is whole, and nothing is noted."""
    assert spooled(tmp_path, b"12345678", limit=8) == (b"12345678", "12345678")


@given(st.lists(st.binary(max_size=8)))
def test_lines_do_not_depend_on_chunks(chunks: list[bytes]) -> None:
    """However the bytes arrive, the lines are those of the whole."""
    lines: list[bytes] = []
    reader = Lines(lines.append)
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    whole = b"".join(chunks).split(b"\n")
    assert lines == (whole if whole[-1] else whole[:-1])


def test_the_longest_line_is_still_read() -> None:
    """A line of just the limit passes, one byte more is skipped, also at the end."""
    lines: list[bytes] = []
    reader = Lines(lines.append, longest=3)
    for chunk in (b"ab", b"c\nab", b"cd\n", b"abcd", b"e"):
        reader.feed(chunk)
    reader.finish()
    assert lines == [b"abc", b"[a line of 4 bytes was skipped]", b"[a line of 5 bytes was skipped]"]
