"""The view *Now*, as a browser first gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swell.api.page.changes import ShownPage
from swell.api.page.job_rows import BLANK
from swell.api.page.platform_rows import BLANK_TENANT
from swell.api.words import SIGNS
from swell.web.templating import render

#: Rows of the table at first; a button shows more.
FIRST_ROWS = 200


def now_page(shown: ShownPage, base: Mapping[str, Any]) -> str:
    """HTML with all that is to be seen, and the data from which the page goes on."""
    return render(
        "now.html",
        {
            **base,
            "shown": shown,
            "jobs": shown.jobs[:FIRST_ROWS],
            "stories": list(reversed(shown.stories)),
            "blank": BLANK,
            "blank_tenant": BLANK_TENANT,
            "state": {"signs": SIGNS, **msgspec.to_builtins(shown)},
        },
    )
