"""How the API answers: JSON, and failures as `{"error": text}`."""

from __future__ import annotations

from starlette.responses import Response

from swell.model.coding import encode


def answer(value: object, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(encode(value), status, media_type="application/json")


def failure(status: int, text: str) -> Response:
    """`{"error": text}`."""
    return answer({"error": text}, status)
