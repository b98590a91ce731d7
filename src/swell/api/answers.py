"""How the API answers: JSON, and failures as `{"error": text}`."""

from __future__ import annotations

import zlib

from starlette.requests import Request
from starlette.responses import Response

from swell.api.unix_http import GZIP
from swell.model.coding import encode

#: Shorter answers are sent as they are.
LEAST_COMPRESSED_BYTES = 1024
FASTEST = 1


def answer(value: object, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(encode(value), status, media_type="application/json")


def failure(status: int, text: str) -> Response:
    """`{"error": text}`."""
    return answer({"error": text}, status)


def compressed(response: Response, request: Request) -> Response:
    """The answer, compressed if it is long and the client takes that."""
    is_taken = "gzip" in request.headers.get("accept-encoding", "")
    if is_taken and len(response.body) >= LEAST_COMPRESSED_BYTES:
        response.body = zlib.compress(response.body, FASTEST, GZIP)
        response.headers["Content-Length"] = str(len(response.body))
        response.headers["Content-Encoding"] = "gzip"
    return response
