"""What somebody sent with a form. Its size is bounded, and a page reads it as it reads an address."""

from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request

LARGEST = 1024 * 1024  # bytes: the ids of some ten thousand findings, or a long feedback
_FIELDS = 50_000

Form = ImmutableMultiDict[str, str]


async def form_of(request: Request) -> Form:
    """The fields of a form; raises a 413 for one that is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"This form has more than {LARGEST:,} bytes.")
    try:
        return ImmutableMultiDict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise HTTPException(400, "This form cannot be read: it is no text, or has too many fields.") from None
