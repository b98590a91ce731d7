"""What the commands that a page shows need besides, to find its platform."""

from __future__ import annotations

import shlex
from pathlib import Path

from swell.store.folder import StateFolder


def state_option(folder: Path) -> str:
    """`--state` and this folder, after a space; nothing for the one that commands take by themselves."""
    return "" if folder == StateFolder().path else f" --state {shlex.quote(str(folder))}"
