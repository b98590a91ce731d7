"""A worker proves itself: it computes, from a checkpoint, what the gang that saved it computed next.

It makes passes of that step as probes, which update nothing. Each has the samples that a worker of the gang
had, and must come to the same loss and gradient: else the state lacks something, or the data are read
otherwise. One of the passes is made in two parts as well, as at another number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import torch

from swell.script_facts import ScriptFinding
from swell.train.collective.gradients import StepTotals
from swell.train.data.sample_schedule import Share
from swell.train.link.agent_link import Link, close_script, exit_now
from swell.train.link.code_paths import place_of_error
from swell.train.runtime.host import Host, Task
from swell.train.runtime.size_comparison import (
    MOST_SAMPLES,
    Plan,
    Probe,
    SizeComparison,
    cut_in_two,
    part_of,
)
from swell.train.runtime.step_comparison import PART_OF_BATCH, Key, ShareOf, finding
from swell.train.runtime.witness import PassNote, StepNotes, WitnessedStep
from swell.wire import environ, messages

#: Passes that are made again, at most: they and the parts take two steps' time.
MOST_PASSES = 2


class Proof(SizeComparison):
    """Leads the probes of a worker that has restored a checkpoint, before it goes on with another state."""

    num_kept, moves = 0, False  # all is put back as the checkpoint has it

    def __init__(self, task: Task, step: WitnessedStep, cuts: bool) -> None:
        """The state after `step.steps` steps has just been restored.

        Args:
            cuts: one pass is made in two parts, too.
        """
        course = task.course
        course.batch, course.shares = step.batch, step.shares
        super().__init__(task, course, MOST_SAMPLES, has_passes=False)
        self.steps_before, self.positions = step.steps, task.positions
        self.notes = StepNotes(task.state)  #: of the probe under way
        self.mean_loss = torch.tensor(step.loss, dtype=torch.float64).to(self._parameters[0])
        noted = [
            (partial(step.share, course, rank, number), note)
            for rank, worker in enumerate(step.workers)
            for number, note in enumerate(worker.passes)
        ]
        first = course.place.step % len(noted) if noted else 0
        self._noted = (noted[first:] + noted[:first])[:: max(1, len(noted) // MOST_PASSES)][:MOST_PASSES]
        self._cuts = cuts and course.num_shards is None and task.positions.num == 1
        self._is_cut = False  # what is made now
        self._expected: PassNote | None = None  # of what is made now
        self._kept = task.state.copy()

    def _probes(self) -> Plan:
        for share_of, noted in reversed(self._noted):
            self._expected = noted
            whole = yield Probe(share=share_of)
            own = noted.difference(self.notes.passes[0], self._tolerance)
            if what := self.positions.first_text(own):
                return [self._other(f"computes {what} in step {self.steps_before + 1}")]
        least = self._course.least_samples
        if not (self._noted and self._cuts) or (size := whole.share.num_local) < 2 * least:
            return []
        self._is_cut, self._expected = True, None
        parts = range(size), *cut_in_two(size, least)
        probes = [Probe(partial(_part_of, share_of, places)) for places in parts]
        first, second = (yield probes[1]), (yield probes[2])
        found = self._set_from_batch(first, second)
        found += yield from self._look_at_sizes(probes, whole, first, second, bool(found))
        return found

    def finding_of(self, error: BaseException | None, line: str) -> ScriptFinding | None:
        if error is None:  # the gang may have left its loop after that step, too
            what = self._expected and self._expected.difference(self.notes.passes[0], self._tolerance)
            return self._other(f"computes {what} in step {self.steps_before + 1}") if what else None
        if self._is_cut:
            return finding(PART_OF_BATCH, place_of_error(error), error=line.strip())
        return self._other(f"fails: {line.strip()}")

    # ------------------------------------------------------------ what a probe begins with
    def _share(self, probe: Probe, step: int) -> Share:
        """The first batch is about to come: keep what the script has that is in no checkpoint."""
        if not self._originals:
            self._originals = self._task.state.script_values()["variables"]
        return super()._share(probe, step)

    def _put_back(self, carried: Mapping[Key, Any] | None = None) -> None:
        if self._num_begun:  # what was restored is as it was
            super()._put_back(carried)
        self.notes = StepNotes(self._task.state)

    def _loss_of(self, share: Share, loss: torch.Tensor) -> torch.Tensor:
        return loss


class Prover(Host):
    """What a worker is that proves itself. It leaves then: its script is not as in a new process any more."""

    def __init__(self, link: Link, max_local_batch: int | None, proof: Proof) -> None:
        super().__init__(link.welcome, max_local_batch, positions=proof.positions)
        self._link, self._proof, self._plan = link, proof, proof.steps()
        self._share_of: ShareOf  # of the probe under way
        self._is_out = False  # it has not come to its pass yet

    rank, num_workers = 1, 2  # no leader, which would print and write files

    def reach_boundary(self) -> None:
        self._link.lease.check()
        self._link.heartbeat.note_steps(self._proof.steps_before)
        self._check_out("an epoch ends before that step")
        try:
            share_of = next(self._plan)
        except StopIteration as end:
            self._leave(end.value)
        assert share_of is not None  # noqa: S101 - a proof has no steps that go on by themselves
        self._share_of, self.notes = share_of, self._proof.notes
        self.edition, self._is_out = self.edition - 1, True

    def _check_out(self, why_not: str) -> None:
        """What a probe was to compute has not been computed: then nothing is known."""
        if self._is_out:
            self._leave([], why_not)

    def share(self, step: int) -> Share:
        return self._share_of(step)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        self._proof.note(share, loss)
        self._is_out = False
        return None

    def loss_told(self, own: torch.Tensor) -> torch.Tensor:
        return self._proof.mean_loss.clone()

    def settle(self, error: BaseException | None, line: str) -> None:
        self._leave([self._proof.finding_of(error, line)], is_alone=error is not None)

    def finish(self, is_early: bool) -> None:
        self._check_out("the script has left its loop before that step")
        self.settle(None, "")

    def _leave(
        self, findings: Sequence[ScriptFinding | None], why_not: str = "", is_alone: bool = False
    ) -> NoReturn:
        """`is_alone`: other processes of this worker do not come here."""
        found = tuple(each for each in findings if each is not None)
        steps = None if why_not else self._proof.steps_before
        if self.positions.is_first or is_alone:
            self._link.send(messages.Proved(steps=steps, findings=found, why_not=why_not, is_last=True))
        else:
            self._link.send(messages.Left(generation=0))
        if not is_alone:
            self.positions.all(True)  # the first that exits ends the others
        close_script()
        exit_now(environ.EXIT_STOPPED)


def _part_of(share_of: Callable[[], Share], places: range) -> Share:
    return part_of(share_of(), places)
