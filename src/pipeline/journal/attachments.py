"""Texts attached to records, as bytes: compressed where they are long, since they are seldom read."""

import zlib

ATTACHMENT_ERRORS = (zlib.error, UnicodeDecodeError, TypeError)  # what `unpacked` raises for damaged bytes

_FAST = 1  # level; more costs a stage longer and saves little of a prose text
_LONG = 500  # bytes that are worth compressing
_PLAIN = b"\0"  # what one begins with that is not, before its checksum; a compressed one has its own


def packed(text: str) -> bytes:
    """A text as it is stored."""
    body = text.encode("utf-8", "surrogatepass")
    return zlib.compress(body, _FAST) if len(body) >= _LONG else _PLAIN + _checksum(body) + body


def unpacked(body: bytes) -> str:
    """The text of some stored bytes."""
    return (_sound(body) if body[:1] == _PLAIN else zlib.decompress(body)).decode("utf-8", "surrogatepass")


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4)


def _sound(body: bytes) -> bytes:
    if _checksum(body[5:]) != body[1:5]:
        raise zlib.error("its checksum does not match")
    return body[5:]
