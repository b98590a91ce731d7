from __future__ import annotations

from pathlib import Path

from tests.store.contract import JournalContract
from tests.store.memory_journal import MemoryJournal


class TestMemoryJournal(JournalContract):
    def make(self, tmp_path: Path) -> MemoryJournal:
        return MemoryJournal()
