"""The view *Now*, as a browser first gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swell.api.page.feed import Shown
from swell.api.page.rows import BLANK, SIGNS, JobRow
from swell.web.templating import render

#: Rows of the table at first; the page asks for more.
FIRST_ROWS = 200
#: The order of the table: what runs, what waits, what has ended.
ORDER = {"running": 0, "starting": 0, "stopping": 0, "queued": 1}


def now_page(shown: Shown, base: Mapping[str, Any]) -> str:
    """HTML with all that is to be seen, and the data from which the page goes on."""
    jobs = sorted(shown.jobs, key=_place)
    return render(
        "now.html",
        {
            **base,
            "shown": shown,
            "jobs": jobs[:FIRST_ROWS],
            "stories": list(reversed(shown.stories)),
            "blank": BLANK,
            "state": {"signs": SIGNS, **msgspec.to_builtins(shown)},
        },
    )


def _place(row: JobRow) -> tuple[int, float, str]:
    """Ended ones newest first, others oldest first."""
    group = ORDER.get(row.phase, 2)
    return (group, row.submitted_s if group < 2 else -(row.finished_s or 0), row.id)
