"""What a browser is shown that may not see the page."""

from __future__ import annotations

from starlette.responses import HTMLResponse

from swell.web.templating import render

NO_SESSION = (
    "This page opens with `swell page`, run on this machine by the owner of the platform or a user whom the "
    "owner has added."
)
USED = (
    "This link was used before, is older than a minute, or belongs to another user of this machine; "
    "`swell page` opens the page with a new one."
)


def refusal_page(status: int, text: str) -> HTMLResponse:
    """One sentence, and nothing of the platform."""
    return HTMLResponse(render("refused.html", {"text": text}), status)
