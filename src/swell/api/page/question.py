"""What a page may ask of the platform's future, and of a job file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swell.api.submission import Submission
from swell.model.errors import InvalidInput

#: More devices than can be simulated, whatever a node has.
MAX_NODES = 1_000_000


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be different, as a person filled in the form."""

    policy: str = ""  #: empty, here and below: as it is
    add_nodes: int = 0
    kind: str = ""
    drain: tuple[str, ...] = ()
    deadlines: tuple[tuple[str, str], ...] = ()
    text: str = ""  #: of a job file
    folder: str = ""  #: where its relative paths start
    file_name: str = ""
    zone: str = ""  #: time zone of the browser, such as `Europe/Zurich`, in which its times are

    @property
    def is_empty(self) -> bool:
        """It names no change."""
        return not (self.policy or self.add_nodes or self.drain or self.deadlines or self.text)

    def check(self) -> None:
        """Raises InvalidInput."""
        if not 0 <= self.add_nodes <= MAX_NODES:
            raise InvalidInput(
                f"nodes to add: {self.add_nodes} is not between 0 and {MAX_NODES:,}; choose another"
            )
        if self.text and self.folder and not Path(self.folder).is_absolute():
            raise InvalidInput(
                f"folder {self.folder[:80]!r} is not absolute: relative paths of the job file start there; "
                "write it from / on"
            )

    @property
    def file(self) -> Path:
        """Path of the job file that errors name."""
        return Path(self.folder or "/") / (Path(self.file_name).name or "job.yaml")


class HandedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon hands over."""

    state: str  #: path of the state folder; empty: the jobs of the file are asked for
    question: Question


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One of these, in any case."""

    error: str = ""
    what_if: msgspec.Raw = msgspec.Raw(b"null")  #: a `WhatIf`
    jobs: tuple[Submission, ...] = ()
