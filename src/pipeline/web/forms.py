"""What somebody sent with a form: short texts by name."""

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

LONGEST = 256 * 1024  # bytes
_MOST = 1_000  # fields


async def form(request: Request) -> dict[str, str]:
    """The fields of a form; of two with the same name the last."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise HTTPException(413, f"That is more than a form may hold ({LONGEST // 1024} KB). Put it into a file.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST, errors="replace"))
    except ValueError:
        raise HTTPException(400, "The form could not be read.") from None
