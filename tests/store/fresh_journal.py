"""Journals for tests that look at no files: these go with the object."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

from swell.model.view import JobView
from swell.store.journal import SqlJournal


def fresh_journal(ended: Iterable[JobView] = ()) -> SqlJournal:
    """A journal with nothing but these jobs."""
    folder = tempfile.mkdtemp(prefix="swell-journal-")
    journal = SqlJournal(Path(folder) / "journal.db")
    weakref.finalize(journal, shutil.rmtree, folder)
    if views := list(ended):
        journal.keep(views)
    return journal
