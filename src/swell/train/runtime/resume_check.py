"""Whether a script that is stopped and goes on learns the same, tried out in a trial run.

Some steps are made. Then the state that a checkpoint has is put back as in a new process, and the same steps
are made again. What is not in that state, as an `enumerate`, an iterator or a file, has gone on meanwhile:
gradients, losses or learning rates are others. Without this `warmup_over_closure.py` and `next_count.py` of
`tests/scripts/differs` go wrong in silence.
"""

from __future__ import annotations

import dis
import math
import time
from collections.abc import Generator, Mapping
from functools import partial
from types import FrameType
from typing import Any

from swell.script_facts import NOT_RESUMED, ScriptFinding
from swell.train.collective.memory_errors import is_out_of_memory
from swell.train.data.stream_reader import NUM_BACK
from swell.train.link.code_paths import place_of
from swell.train.runtime.host import ShownCounts, Task
from swell.train.runtime.run import started
from swell.train.runtime.step_comparison import (
    ShareOf,
    StepComparison,
    Steps,
    listed,
    tolerance_of,
)
from swell.train.runtime.witness import PassNote, StepNotes

#: Steps that are made twice, at most.
NUM_STEPS = NUM_BACK
#: Fewer steps will do once they have taken as long as this.
LONG_S = 1.5
#: On a CPU the same step is the same but for rounding in the last bits.
CPU_SHARE = 1e-3


class ResumeCheck(StepComparison):
    """Has the script make some steps twice."""

    def __init__(
        self,
        task: Task,
        shown: ShownCounts,
        share_of: ShareOf,
        originals: Mapping[str, Any],
    ) -> None:
        """The script asks for a batch.

        Args:
            shown: what the script is told of its steps.
            share_of: of each step.
            originals: its variables as it had them before its first batch.
        """
        super().__init__(task)
        self._shown, self._share_of, self._originals = shown, share_of, dict(originals)
        is_cpu = not any(parameter.is_cuda for parameter in self._parameters)
        self._tolerance = tolerance_of(self._parameters) * (CPU_SHARE if is_cpu else 1.0)
        self.notes: StepNotes  #: of the step under way
        self._is_again = False
        frames = task.state.variables.frames()
        self._place = place_of(frames[0]) if frames else ""

    def steps(self) -> Steps:
        """Lead the steps, each of which goes on when its update is made. Return what was found."""
        task = self._task
        task.state.variables.put_waiting()  # of a comparison before this
        self._keep()
        shown_steps = self._shown.steps
        first = yield from self._make(NUM_STEPS, time.monotonic() + LONG_S)
        yield None
        counts = self._counts_of_next()
        try:
            self._put_back()
        except (RuntimeError, TypeError, ValueError, KeyError) as error:
            return [_not_tried(str(error))]
        self._shown.steps, self._is_again = shown_steps, True
        again = yield from self._make(len(first))
        yield None
        for number, results in enumerate(zip(first, again, strict=True), 1):
            for one, other in zip(*results, strict=False):
                if what := one.difference(other, self._tolerance):
                    return [self._other(f"is another one: it computes {what} in its step {number}")]
        counted = self._counts_of_next()
        if others := [name for name, count in counts.items() if counted.get(name) != count]:
            what = f"counts the batches that it takes with next() otherwise: {listed(others)}"
            return [self._other(what)]
        return []

    def _make(
        self, most: int, end_s: float = math.inf
    ) -> Generator[ShareOf | None, None, list[list[PassNote]]]:
        """Have the script make so many steps, or fewer if it is `end_s` before that."""
        share_of = partial(self._share_of)  # another one than before: batches are to be drawn again
        made: list[list[PassNote]] = []
        while len(made) < most and (not made or time.monotonic() <= end_s):
            self.notes = StepNotes(self._task.state)
            yield share_of
            made.append(self.notes.passes)
        return made

    def begin_step(self) -> None:
        """The script asks for a batch. A new process has no gradients when it gets its first one."""
        if self._is_again:
            for parameter in self._parameters:
                parameter.grad = None

    def finding_of(self, error: BaseException | None, line: str) -> ScriptFinding | None:
        """Return the finding of an error of the script; None: what is tried has not caused it.

        Args:
            error: None: the script has left its loop instead.
            line: the last one of the error's text.
        """
        if error is None:
            why = "the script leaves its loop after a few batches"
            return self._other("leaves its loop earlier") if self._is_again else _not_tried(why)
        return self._other(f"fails: {line}") if self._is_again and not is_out_of_memory(error) else None

    def _counts_of_next(self) -> dict[str, int]:
        """Return the whole numbers that the script keeps, if it takes its batches with `next`.

        Such a loop has a count of its own, as a rule. One over `run.epochs()` takes up what ends too early.
        """
        variables = self._task.state.variables
        frame = next(iter(variables.frames()), None)
        if frame is None or not started[-1].is_early() or _is_in_for(frame):
            return {}
        values = variables.values(frame)
        counts = {name: value["value"] for name, value in values.items() if type(value.get("value")) is int}
        return {name.removeprefix("__main__."): count for name, count in counts.items()}


def _not_tried(why: str) -> ScriptFinding:
    """Return the hint that going on from a checkpoint was not tried."""
    text = (
        f"going on from a checkpoint was not tried ({why.strip()}), so whether a worker that joins, and a "
        "job that goes on, learn the same is not known; what is in run.state goes on in any case"
    )
    return ScriptFinding(name=NOT_RESUMED, text=text, holds=False)


def _is_in_for(frame: FrameType) -> bool:
    """Whether a function waits for what a `for` gets next, and not for what it has called."""
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["FOR_ITER"]
