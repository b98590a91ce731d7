"""A script that knows nothing of Swell: its optimizer steps are counted, and it ends between two of them.

torch calls a hook after each step of any optimizer. In it rank 0 tells the agent how far training has got,
and in it SIGTERM comes when the script is to stop, in the same step on all workers. So none of them ends, or
begins to save, inside a collective of the others or while a checkpoint is being written. Until its first step
it is found out whether it works with others, or would be so many identical copies.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from swell.train.collective.process_groups import choose_interface, own_address
from swell.train.link.agent_link import ObserverLine
from swell.train.link.pending_values import PendingValues
from swell.wire import environ, messages
from swell.wire.lease_end import Lease
from swell.wire.library_paths import LAUNCHER_AWARE, is_library, is_standard
from swell.wire.reports import send_reports_to

INTERVAL_S = 0.5
#: Workers that compute together are never further apart than one step.
LARGEST_LEAD_STEPS = 1
#: A script that reads one of these knows which of several workers it is.
PLACE = frozenset({environ.RANK, environ.LOCAL_RANK, environ.WORLD_SIZE})
#: The module of torch that reads these when a process group is formed.
FORMING = "torch.distributed.rendezvous"
IDENTICAL = """\
{num} workers run this script, and it formed no process group before its first step: they are identical \
copies that write the same files. Call torch.distributed.init_process_group before the training loop, or \
submit it for one worker with `workers: 1` (`--workers 1`).
"""


def watch() -> DistributedCheck:
    """Called once, before the script runs, in a worker whose environment names an observer.

    Raises:
        NoInterface: workers of other hosts cannot reach this one.
    """
    names, line = os.environ, ObserverLine()
    rank, num_workers = int(names[environ.RANK]), int(names[environ.WORLD_SIZE])
    num_local = int(names.get(environ.LOCAL_WORLD_SIZE, num_workers))
    if num_local < num_workers:
        choose_interface(own_address())
    reporter = Reporter(num_workers, line) if rank == 0 else None
    if reporter is not None:
        send_reports_to(reporter.report, reporter.count)
        atexit.register(reporter.tell_rest)

    def tell_distributed(is_so: bool, is_by_library: bool) -> None:
        if rank == 0:
            line.send(messages.Distributed(is_so=is_so, is_by_library=is_by_library))

    check = DistributedCheck(num_workers, tell_distributed)
    watched = StepCounter(line, reporter.tell if reporter else None, Lease())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as torchrun leaves it: libraries look whether it is
    signal.signal(environ.STOP_AT_STEP, watched.asked_to_stop)
    register_optimizer_step_post_hook(lambda optimizer, args, kwargs: check.stepped())
    register_optimizer_step_post_hook(watched.stepped)
    return check


class StepCounter:
    """The script's steps as its process sees them, and the vote of all workers on the last one.

    A script with several optimizers is as far as the one that has made most steps.

    Each worker tells the agent how many steps it had ended when it was asked to stop. When all have, they
    stop after the same step: `LARGEST_LEAD_STEPS` after the largest number, and one more. The last one to
    vote is no further behind the others than that lead, so none has gone too far when that number is known.
    A vote goes out at the end of a step, not in the signal's handler, which may interrupt another message.
    """

    def __init__(
        self, line: ObserverLine, report: Callable[[int, int | None, bool], None] | None, lease: Lease
    ) -> None:
        self._line, self._lease = line, lease
        self._report = report
        self._is_asked = self._has_stopped = False  # to stop after a step
        self._counts: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()
        self._num_steps = 0  #: since this process began
        self._is_leaving = False  #: it was told to stop before its first step
        self._earlier: int | None = None  #: steps that its optimizer has made before; None: it does not count

    def stepped(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Raises SystemExit if it is time to go and the script does not handle SIGTERM itself."""
        self._lease.check()
        self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        if self._counts[optimizer] > self._num_steps:
            self._num_steps = self._counts[optimizer]
            if self._num_steps == 1 and (own_steps := own_count(optimizer)):
                self._earlier = own_steps - 1
        is_last = self._is_leaving
        if self._is_asked and not is_last:  # where the agent does not answer, SIGTERM will come by itself
            told = self._line.send(messages.StopVote(num_steps=self._num_steps), is_question=True)
            most = told.most if isinstance(told, messages.StopVoteResult) else None
            is_last = most is not None and self._num_steps > most + LARGEST_LEAD_STEPS
        if self._report is not None:
            self._report(self._num_steps, self._earlier, is_last)
        if is_last:
            self._is_asked, self._has_stopped = False, True
            _terminate()

    def asked_to_stop(self, signum: int, frame: FrameType | None) -> None:
        """A script that has made no step yet has nothing to lose: it need not wait for one.

        What is raised here may be lost: Python runs signal handlers in the hooks around a fork, say one for a
        loader's process, and drops what these raise. Then the first step is the last one.
        """
        if self._num_steps == 0:
            self._is_leaving = True
            _terminate()
        else:
            self._is_asked = not self._has_stopped  # a second request changes nothing


def _terminate() -> None:
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        raise SystemExit(environ.EXIT_STOPPED)  # it ends as one that handles the signal well
    signal.raise_signal(signal.SIGTERM)


def own_count(optimizer: torch.optim.Optimizer) -> int:
    """Steps that the optimizer says it has made, over all its lives; 0 if it does not count (SGD)."""
    counts = [state["step"] for state in optimizer.state.values() if "step" in state]
    return int(max(counts, key=float, default=0))


class Reporter:
    """Tells the agent how far the script is, and what it reports, now and then, without waiting."""

    def __init__(self, num_workers: int, line: ObserverLine) -> None:
        self._num_workers = num_workers
        self._line = line
        self._values = PendingValues()
        self._steps = 0
        self._earlier: int | None = None
        self._is_told = False  #: by the script itself: its optimizer's steps do not count
        self._with_own_steps: set[str] = set()  # names
        self._told_s = 0.0
        self._told_steps = 0

    def tell(self, steps: int, earlier: int | None, is_last: bool) -> None:
        """`earlier`: steps that the optimizer has made before this process; None: it does not know."""
        if not self._is_told:
            self._note(steps, earlier)
        if is_last or time.monotonic() - self._told_s >= INTERVAL_S:
            self.tell_rest(is_last)

    def count(self, done: int, total: int) -> None:
        """What the script says by `swell.train.report_progress`. Raises ValueError."""
        said, asked = f"report_progress(done={done}, total={total})", os.environ.get(environ.STEPS)
        if asked is not None and total != int(asked):
            raise ValueError(
                f"{said}: the job was submitted with --steps {asked}; submit it with --steps {total}"
            )
        with self._line.lock:
            if self._steps and not self._is_told:
                raise ValueError(f"{said} comes after the first step; call it before, with what is done then")
            earlier = self._earlier if self._is_told and self._earlier is not None else done
            if done < earlier + self._steps:
                raise ValueError(
                    f"{said} is less than before ({earlier + self._steps}); count what is finished"
                )
            self._is_told = True
            self._note(done - earlier, earlier)
            if time.monotonic() - self._told_s >= INTERVAL_S:
                self.tell_rest()

    def _note(self, steps: int, earlier: int | None) -> None:
        if not self._steps:
            self.tell_values()  # how many steps there were before is known from now on
        self._steps, self._earlier = steps, earlier

    def tell_rest(self, is_last: bool = False) -> None:
        """What has not been told yet; the script may have come to its end."""
        self.tell_values()
        now_s, steps = time.monotonic(), self._steps
        if self._line.is_over or (steps == self._told_steps and not is_last):
            return
        num = steps - self._told_steps
        step_s = (now_s - self._told_s) / num if self._told_steps and num else None
        self._told_s, self._told_steps = now_s, steps
        self._line.send(
            messages.Stepped(
                num_workers=self._num_workers,
                steps=steps,
                own_steps=None if self._earlier is None else self._earlier + steps,
                step_s=step_s,
                is_last=is_last,
            )
        )

    def report(self, values: dict[str, float], step: int | None) -> None:
        """What the script says by `swell.report`, in any thread. Processes that it has forked say nothing."""
        if self._line.is_over:
            return
        with self._line.lock:
            if step is not None:
                self._with_own_steps |= values.keys()
            at = self._steps + (self._earlier or 0) if step is None else step
            if self._values.note(values, at):
                self.tell_values()

    def tell_values(self) -> None:
        """What was reported and is not told yet."""
        with self._line.lock:
            values, refusal = self._values.take(), self._values.take_refusal()
            if values or refusal:
                curves = self._values.take_curves(self._num_workers)
                relative = set(curves) - self._with_own_steps if self._earlier is None else set()
                self._line.send(
                    messages.Reported(
                        values=values, curves=curves, refusal=refusal, relative=sorted(relative)
                    )
                )


class DistributedCheck:
    """Watches what a script does until it has shown that; made before the script runs.

    Args:
        tell: is told True once the script has shown that it works with others, and False if it has not by
            its first step; and whether it is a library alone that has shown it.
    """

    def __init__(self, num_workers: int, tell: Callable[[bool, bool], None]) -> None:
        self._num_workers = num_workers
        self._tell = tell
        self._told: bool | None = None
        self._knows_its_place = False
        _watch_environ(self._read)

    def stepped(self) -> None:
        """An optimizer has made a step. Raises SystemExit if the workers are identical copies."""
        if self._told:
            return
        is_by_library = _is_driven_by_library()
        if dist.is_initialized() or is_by_library:
            self._note(True, is_by_library)
        elif self._told is None:
            self._check()
            self._note(False)

    def ended(self) -> None:
        """The script ran to its end. Raises SystemExit as `stepped`.

        A script that was started again is spared: it may have found that all was done.
        """
        if self._told is None and os.environ.get(environ.WORKER) == os.environ.get(environ.RANK):
            self._check()

    def _check(self) -> None:
        knows_others = self._knows_its_place or dist.is_initialized()
        if self._num_workers > 1 and not knows_others:
            raise SystemExit(IDENTICAL.format(num=self._num_workers))

    def _read(self, name: str, reader: FrameType) -> None:
        """A variable of `PLACE` is looked at; torch does it to form a group."""
        asking = _outside_standard(reader)
        is_forming = asking is not None and asking.f_globals.get("__name__") == FORMING
        is_of_script = asking is not None and not is_library(asking.f_code.co_filename)
        self._knows_its_place |= is_forming or is_of_script
        is_told = is_of_script and name == environ.WORLD_SIZE
        if not self._told and (is_told or (is_forming and not _is_driven_by_library())):
            self._note(True)

    def _note(self, is_so: bool, is_by_library: bool = False) -> None:
        if self._told is not is_so and not (self._told and not is_so):
            self._told = is_so
            self._tell(is_so, is_by_library)


def _watch_environ(read: Callable[[str, FrameType], None]) -> None:
    """`read` is told of each look at a variable of `PLACE`, and by whom; not of copies of all variables."""
    plain = type(os.environ)
    listed: list[str] = []  # by the latest iteration, and not yet read in its order

    class WatchedEnviron(plain):  # type: ignore[valid-type, misc]
        def __iter__(self) -> Iterator[str]:
            listed.clear()
            for name in super().__iter__():
                listed.append(name)
                yield name

        def __getitem__(self, name: str) -> str:
            if listed and listed[0] == name:
                del listed[0]
            elif name in PLACE:
                read(name, sys._getframe(1))
            value: str = super().__getitem__(name)
            return value

    os.environ.__class__ = WatchedEnviron


def _outside_standard(frame: FrameType | None) -> FrameType | None:
    """The innermost call outside of the standard library."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_driven_by_library() -> bool:
    calls = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_stack(sys._getframe(1)))
    return any(module.partition(".")[0] in LAUNCHER_AWARE for module in calls)
