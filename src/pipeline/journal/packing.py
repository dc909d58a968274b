"""Texts that are attached to records, as bytes, and the error for what is damaged."""

import zlib

from pipeline.engine.errors import JournalError

ATTACHMENT_ERRORS = (zlib.error, UnicodeDecodeError, TypeError)  # what `unpack_text` raises for damaged bytes


def damaged_record(owner: str, seq: int, problem: str) -> JournalError:
    """Return the error for a record, of a run or of the ledger, that cannot be read."""
    return JournalError(
        f"record {seq} of {owner} is damaged: {problem}",
        help="nothing was changed; restore the store from a backup, or start a new run",
    )


def pack_text(text: str) -> bytes:
    """Return a text as it is attached to a record: compressed, with a checksum."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), level=1)


def unpack_text(body: bytes) -> str:
    """Return an attached text, or raise one of ATTACHMENT_ERRORS if it is damaged."""
    if body[:1] == b"\0":  # a short text of earlier versions: not compressed, after a checksum of four bytes
        data = body[5:]
        if zlib.crc32(data).to_bytes(4) != body[1:5]:
            raise zlib.error("checksum mismatch")
    else:
        data = zlib.decompress(body)
    return data.decode("utf-8", "surrogatepass")
