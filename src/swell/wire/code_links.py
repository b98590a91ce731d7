"""The links in a job's copy of its code to files that the copy does not have.

The copy looks like the file system's root. Its links lead to what lies beside the originals of its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: So many folders above those that were looked through have links too: scripts look into `../data`.
NUM_LEVELS_ABOVE = 3
#: A folder above with more entries is no folder of a project.
MAX_ENTRIES_ABOVE = 1000
UNLINKED = frozenset({"__pycache__"})


def link_originals(code: Path, roots: Iterable[str]) -> None:
    """Link what this account may list. Several processes may do so at the same time. Raises OSError."""
    for root in roots:
        for folder, _, _ in os.walk(place_in(code, root)):
            original = f"/{os.path.relpath(folder, code)}"
            _link(code, original, _names(original))
        for above in list(Path(root).parents)[:-1][:NUM_LEVELS_ABOVE]:
            if len(names := _names(str(above))) <= MAX_ENTRIES_ABOVE:
                _link(code, str(above), names)


def place_in(code: Path, path: str) -> Path:
    """Return where a path of the machine lies in the tree `code`."""
    return code / path.lstrip("/")


def _names(folder: str) -> list[str]:
    """Empty of a folder that is gone by now, or may not be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(code: Path, folder: str, names: list[str]) -> None:
    """Link the entries of a folder that the copy does not have."""
    for name in names:
        link = place_in(code, os.path.join(folder, name))
        if name not in UNLINKED and not os.path.lexists(link):
            with suppress(FileExistsError):
                link.symlink_to(os.path.join(folder, name))
