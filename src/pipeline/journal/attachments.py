"""Texts attached to records, as bytes: compressed, since they are long and seldom read."""

import zlib

ATTACHMENT_ERRORS = (zlib.error, UnicodeDecodeError, TypeError)  # what `unpacked` raises for damaged bytes

_FAST = 1  # level; more costs a stage longer and saves little of a prose text


def packed(text: str) -> bytes:
    """A text as it is stored."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), _FAST)


def unpacked(body: bytes) -> str:
    """The text of some stored bytes."""
    return zlib.decompress(body).decode("utf-8", "surrogatepass")
