"""Files and folders of control groups, below a root: a test has a folder in place of the machine's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """`root` stands for `/` in every path that is asked for, and in those that /proc names."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """Where an absolute path of the machine lies."""
        return self.root / path.lstrip("/")

    def read(self, path: Path) -> str:
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """One write: the kernel takes it as one request, and its refusal is an OSError."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def add(self, folder: Path, pids: Iterable[int]) -> None:
        """Move processes to a group; one that is gone is no error. What they start later belongs to it."""
        for pid in pids:
            with suppress(ProcessLookupError):
                self.write(folder / "cgroup.procs", str(pid))

    def make(self, folder: Path) -> None:
        """A group; no effect if it is there."""
        folder.mkdir(exist_ok=True)

    def remove(self, folder: Path) -> None:
        """A group without processes; no effect if it is gone."""
        with suppress(FileNotFoundError):
            folder.rmdir()

    def inner(self, folder: Path) -> list[Path]:
        """Groups in a group; none if it is gone."""
        try:
            return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def can_write(self, path: Path) -> bool:
        return os.access(path, os.W_OK)

    def has_mark(self, folder: Path, name: str) -> bool:
        """Whether an extended attribute of the folder is `1`."""
        try:
            return os.getxattr(folder, name) == b"1"
        except OSError:
            return False

    def pids(self, folder: Path) -> list[int]:
        """Processes of a group."""
        return [int(word) for word in self.read(folder / "cgroup.procs").split()]


#: The machine's own.
MACHINE = GroupFiles()


def numbers(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in `cpu.stat`."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
