"""What a browser is shown that may not see the page."""

from __future__ import annotations

from starlette.responses import HTMLResponse

from swell.web.templating import render

NO_SESSION = "This page opens with `swell page`, run on this machine by the owner of the platform."
USED = (
    "This link was used before, or is older than a minute; `swell page` prints another one. "
    "A page that is open goes on."
)


def refusal_page(status: int, text: str) -> HTMLResponse:
    """One sentence, and nothing of the platform."""
    return HTMLResponse(render("refused.html", {"text": text}), status)
