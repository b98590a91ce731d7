"""What all changes of libraries know: which worker this is, and how the job's owner is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from swell.wire.findings import WHOLE, ScriptFinding


class Division:
    """One worker's part in dividing the batches of a library's script.

    Args:
        tell: is given all findings by now, whenever there is a new one; only rank 0's reach the job's owner.
        own_division: FILE:LINE at which the script itself read the number of workers; empty: it did not.
        place_in_script: FILE:LINE of a call that the script itself makes; empty: a library makes it.
    """

    def __init__(
        self,
        rank: int,
        num_workers: int,
        num_local: int,
        tell: Callable[[list[ScriptFinding]], None],
        own_division: Callable[[], str],
        place_in_script: Callable[[FrameType], str],
    ) -> None:
        self.rank, self.num_workers, self.num_local = rank, num_workers, num_local
        self._tell = tell
        self._own_division, self._place_in_script = own_division, place_in_script
        self._findings: dict[str, ScriptFinding] = {}
        self._is_told = False

    def is_of_script(self) -> bool:
        """Whether the script divides its batches itself, which is told."""
        place = self._own_division()
        if place:
            text = (
                "the script reads WORLD_SIZE, so it is taken to divide its batches itself, and they are left "
                "as they are; to have them divided, let it name the batch of all workers, without WORLD_SIZE"
            )
            self.find(ScriptFinding(name="own-division", text=text, place=place, holds=False))
        return bool(place)

    def keep_whole(self, library: str, why: str) -> None:
        """Batches of this script are not divided."""
        text = (
            f"{library}: each worker takes a whole batch, so with more workers a step has more samples, and "
            f"there are fewer steps: {why}"
        )
        self.find(ScriptFinding(name=WHOLE, text=text))

    def find(self, finding: ScriptFinding) -> None:
        """Tell it once: first in the script's log."""
        if finding.name not in self._findings:
            self._findings[finding.name] = finding
            if self.rank == 0:
                sys.stderr.write(f"swell: {finding.name}: {finding.sentence}\n")
                self._tell(list(self._findings.values()))

    def say_divided(self, batch_size: int) -> None:
        if self.num_workers > 1 and self.rank == 0 and not self._is_told:
            self._is_told = True
            sys.stderr.write(
                f"swell: each batch of {batch_size} samples is divided among {self.num_workers} workers\n"
            )

    def note_reader(self, reader: FrameType) -> None:
        """How many processes the library has was read by this call, of the script's or of a library's."""
        place = self._place_in_script(reader)
        if not place:
            return
        text = (
            "the script reads num_processes. Its batches are divided among the workers, and its scheduler "
            "steps once a step: what it multiplies with num_processes, or divides by it, is wrong. Take "
            f"num_processes out there, or submit the job with `--accept-differences {WHOLE}`: then each "
            "worker takes a whole batch"
        )
        self.find(ScriptFinding(name="num-processes", text=text, place=place, holds=False))
