"""What somebody sent with a form. Its size is bounded, and a page reads it as it reads an address."""

from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request

LARGEST = 256 * 1024  # bytes
_FIELDS = 1_000

Form = ImmutableMultiDict[str, str]


async def form(request: Request) -> Form:
    """The fields of a form; of two with the same name `get` has the last, `getlist` both."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"That is more than a form may hold ({LARGEST // 1024} KB). Put it into a file.")
    try:
        return ImmutableMultiDict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise HTTPException(400, "This form cannot be read: it is no text, or has too many fields.") from None
