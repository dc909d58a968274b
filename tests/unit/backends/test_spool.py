"""What is kept of a stream, and what is passed on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.backends.spool import LONGEST_HELD, LineSplitter, RedactionFilter, Spool, TextJoiner
from pipeline.engine.ports import LogFate, TextPiece
from pipeline.redaction import PATTERNS_ONLY, Redactor, Secret

SECRET = b"s3cr3t-value"
REDACTOR = Redactor((Secret("X", SECRET.decode()),))
BEGIN, END = b"-----BEGIN PRIVATE KEY-----\n", b"-----END PRIVATE KEY-----\n"
BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"


def spooled(path: Path, *chunks: bytes, limit: int = 1000) -> tuple[bytes, str]:
    with Spool(path / "log", limit) as spool:
        for chunk in chunks:
            spool.write(chunk)
    return (path / "log").read_bytes(), spool.tail()


def test_the_tail_has_thirty_lines(tmp_path: Path) -> None:
    """The last 30 lines are kept; a final line feed does not count."""
    _, tail = spooled(tmp_path, *(f"{number}\n".encode() for number in range(100)))
    assert tail.split("\n") == [str(number) for number in range(70, 100)]


@pytest.mark.parametrize("byte", [b"x", "é".encode(), "\N{SNOWMAN}".encode(), b"\xff"])
def test_the_tail_has_four_kilobytes(tmp_path: Path, byte: bytes) -> None:
    """A long line is cut between characters, and replaced bytes do not make it longer."""
    _, tail = spooled(tmp_path, byte * 5000)
    assert 4092 < len(tail.encode()) <= 4096
    assert set(tail) == set(byte.decode(errors="replace"))


def test_the_tail_covers_everything_written(tmp_path: Path) -> None:
    """Output beyond the limit is not on disk, but in the tail."""
    data, tail = spooled(tmp_path, b"first\n", b"second\n", limit=8)
    assert data == b"first\nse\n[5 more bytes were not kept: the limit is 8]\n"
    assert tail == "first\nsecond"


def test_output_of_exactly_the_limit_is_kept(tmp_path: Path) -> None:
    """Nothing is dropped, and no note is added."""
    assert spooled(tmp_path, b"12345678", limit=8) == (b"12345678", "12345678")


@given(st.lists(st.binary(max_size=8)))
def test_lines_do_not_depend_on_chunks(chunks: list[bytes]) -> None:
    """However the bytes are split, the lines are the same."""
    lines: list[bytes] = []
    reader = LineSplitter(lines.append)
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    whole = b"".join(chunks).split(b"\n")
    assert lines == (whole if whole[-1] else whole[:-1])


def test_the_longest_line_is_still_read() -> None:
    """A line of exactly the limit passes; one byte more is skipped, even at the end."""
    lines: list[bytes] = []
    reader = LineSplitter(lines.append, longest=3)
    for chunk in (b"ab", b"c\nab", b"cd\n", b"abcd", b"e"):
        reader.feed(chunk)
    reader.finish()
    assert lines == [b"abc", b"[a line of 4 bytes was skipped]", b"[a line of 5 bytes was skipped]"]


def redacted(*chunks: bytes, redactor: Redactor = REDACTOR) -> list[bytes]:
    """What is passed on after each chunk, and at the end."""
    handed: list[bytes] = []
    seen: list[bytes] = []
    with RedactionFilter(redactor, seen.append) as stream:
        for chunk in chunks:
            stream.feed(chunk)
            handed.append(b"".join(seen))
            seen.clear()
    return [*handed, b"".join(seen)]


def test_complete_lines_are_passed_on() -> None:
    """Only the unfinished line is held back until the end."""
    assert redacted(b"a", b"b\nc\nd", b"", b"e") == [b"", b"ab\nc\n", b"", b"", b"de"]


def test_held_output_is_passed_on_after_an_error() -> None:
    """A cancelled program's last output is not lost."""
    seen: list[bytes] = []
    stream = RedactionFilter(REDACTOR, seen.append)
    stream.feed(b"last words")
    with pytest.raises(KeyError), stream:
        raise KeyError
    assert seen == [b"last words"]


def test_every_sink_gets_the_same() -> None:
    """What is kept and what is passed on are the same."""
    first: list[bytes] = []
    second: list[bytes] = []
    with RedactionFilter(REDACTOR, first.append, second.append) as stream:
        stream.feed(b"a " + SECRET + b"\n")
    assert first == second == [b"a [redacted X]\n"]


@pytest.mark.parametrize("at", range(len(SECRET) + 1))
def test_a_secret_split_at_any_place_is_found(at: int) -> None:
    """Whole lines are searched."""
    assert b"".join(redacted(b"a " + SECRET[:at], SECRET[at:] + b" b\n")) == b"a [redacted X] b\n"


@given(st.lists(st.sampled_from([b"a!", b"\n", b" ", SECRET, b"\n" + BEGIN, BODY, END]), max_size=12), st.data())
def test_chunks_make_no_difference(parts: list[bytes], data: st.DataObject) -> None:
    """However the bytes are split, secrets are redacted and everything else is kept, except white space around a mark.

    The samples keep to keys that start a line, and to other text that does not look like part of one: a single letter
    after an unfinished key may be its last.
    """
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    left, expected = b"".join(redacted(*chunks)), REDACTOR.data(whole)
    assert b"".join(left.split()) == b"".join(expected.split())


def test_a_private_key_is_held_back_until_it_ends() -> None:
    """Its lines are dropped; what follows is passed on."""
    handed = redacted(b"a\n" + BEGIN, BODY, BODY, END, b"b\n")
    assert handed == [b"a\n", b"", b"", b"[redacted]\n", b"b\n", b""]


def test_a_private_key_that_never_ends_is_cut() -> None:
    """None of it is passed on however long it is, and memory use is bounded."""
    lines = LONGEST_HELD * 4 // len(BODY)
    handed = b"".join(redacted(BEGIN, *[BODY] * lines, b"and so on\n"))
    assert b"MIIE" not in handed
    assert 2 < handed.count(b"[redacted]") < 6
    assert handed.endswith(b"and so on\n")


@pytest.mark.parametrize("before", range(40))
def test_a_secret_in_a_line_without_end_is_found_at_every_cut(before: int) -> None:
    """The cut depends on the length alone: a secret is moved across it byte by byte."""
    redactor = Redactor((Secret("X", SECRET.decode()),))
    room = LONGEST_HELD + redactor.overlap
    cut = room + 1 - redactor.overlap  # the end of what is handed on first
    filler = b"." * (cut - len(SECRET) - 14 + before)
    handed = redacted(filler + SECRET, b"." * (room + 1 - len(filler) - len(SECRET)), b"." * 100, redactor=redactor)
    assert handed[1]
    assert b"".join(handed).strip(b".") == b"[redacted X]"


def test_a_line_without_end_is_not_held_in_memory() -> None:
    """Most of it is passed on before it ends."""
    handed = redacted(*[b"x" * 10_000] * 100)
    assert len(b"".join(handed)) == 1_000_000
    assert len(handed[-1]) <= LONGEST_HELD + REDACTOR.overlap


def test_the_limit_counts_what_is_kept(tmp_path: Path) -> None:
    """A secret at the limit is redacted before the rest is dropped, in the file and in the tail."""
    with Spool(tmp_path / "log", 8) as spool, RedactionFilter(REDACTOR, spool.write) as stream:
        stream.feed(b"12345" + SECRET)
    assert (tmp_path / "log").read_bytes() == b"12345[re\n[9 more bytes were not kept: the limit is 8]\n"
    assert spool.tail() == "12345[redacted X]"


def test_a_stream_without_known_secrets_knows_patterns() -> None:
    """A token is found although it arrives in two pieces."""
    assert redacted(b"ghp_" + b"a1" * 9, b"a1" * 9 + b"\n", redactor=PATTERNS_ONLY)[1] == b"[redacted]\n"


def find_piece(message: Mapping[str, Any]) -> TextPiece | LogFate:
    """A `text` is a piece, anything else says its fate itself."""
    return TextPiece("t", ("in", "text")) if "in" in message else LogFate(message["fate"])


def joined(*messages: object) -> list[Any]:
    """The lines that are passed on."""
    lines: list[bytes] = []
    with TextJoiner(REDACTOR, find_piece, lines.append) as joiner:
        for message in messages:
            joiner.feed(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
    return [json.loads(line) if line.startswith(b"{") else line for line in lines]


def piece(text: str) -> dict[str, Any]:
    """A message with a piece of a text."""
    return {"in": {"text": text}}


def test_pieces_of_a_text_are_one_line() -> None:
    """Until something ends the text; lines between its pieces precede it, and repetitions are left out."""
    keep, end, skip = ({"fate": fate} for fate in ("keep", "end", "skip"))
    lines = joined(piece("a"), keep, b"no JSON\n", piece("b"), skip, end, piece("c"), b'{"fate": "keep"}')
    assert lines == [keep, b"no JSON\n", piece("ab"), end, keep, piece("c")]


@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_in_two_pieces_is_redacted(at: int) -> None:
    """Wherever it is cut."""
    secret = SECRET.decode()
    assert joined(piece(f"é {secret[:at]}"), piece(f"{secret[at:]} é")) == [piece("é [redacted X] é")]


@pytest.mark.parametrize("before", range(0, 40, 3))
def test_a_long_text_is_not_cut_within_a_secret(before: int) -> None:
    """It becomes several lines, which hold all of it but the secrets."""
    secret, filler = SECRET.decode(), "é." * 20_000
    text = "x" * before + f"{filler}{secret}" * 8
    lines = joined(*(piece(text[at : at + 1000]) for at in range(0, len(text), 1000)))
    assert len(lines) > 1
    whole = "".join(line["in"]["text"] for line in lines)
    assert whole == text.replace(secret, "[redacted X]")


def test_a_private_key_that_does_not_end_is_not_held_for_ever() -> None:
    """It becomes marks."""
    key = (BEGIN + BODY * 5000).decode()
    lines = joined(*(piece(key[at : at + 1000]) for at in range(0, len(key), 1000)))
    assert [line["in"]["text"].replace("[redacted]", "") for line in lines] == [""]
