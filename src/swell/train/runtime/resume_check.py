"""Whether a script that is stopped and goes on learns the same, tried out at the beginning of a trial run.

The process forks where `elastic` returns. A first child makes some steps, with the ends of short epochs
among them, and saves its state half way, as a job does. A second one begins with that state, as a
job does that goes on, and makes the second half. Their models must be the same. Without this
`tests/scripts/differs/warmup_over_closure.py` goes wrong in silence.

A process that computes on a GPU cannot be forked: `fresh_check` starts another one that sees none. Where that
fails, or where it would take too long, that is told.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import signal
import stat
import sys
import tempfile
import warnings
from dataclasses import replace

import torch

from swell.train.data.place import Place
from swell.train.runtime import fresh_check
from swell.train.runtime.difference_causes import PAGE, listed
from swell.train.runtime.fresh_check import NotTried
from swell.train.runtime.host import Task
from swell.train.runtime.loop_exits import LoopExit
from swell.train.runtime.rehearsal import HALF_WAY, NUM_STEPS, Rehearsal, RehearsalResult
from swell.train.runtime.rehearsal_folder import RehearsalFolders
from swell.train.runtime.run import Run
from swell.train.runtime.script_end import flush, open_files
from swell.train.runtime.trial_run import Profiling
from swell.wire.findings import NOT_RESUMED, ScriptFinding

#: Time of a processor for all of it, and for the first child.
BUDGET_S, FIRST_S = 4.0, 1.5
#: A child that waits, or whose processor others have, is given so many times as long.
PATIENCE = 5.0
#: The state of a second process may take so much memory.
MOST_BYTES = 2**30
#: Exit status of a process that could change files of others.
NOT_PRIVATE = 3
#: What the kernel says where such a process writes to a place that is not its own.
_REFUSED = tuple(os.strerror(number) for number in (errno.EACCES, errno.EROFS, errno.EOVERFLOW))

_TOO_LONG = f"it takes more than {BUDGET_S:g} s, or the machine is too busy"


class _InChild(Exception):
    """This process is a child, and returns to the script."""


class _OutOfTime(NotTried):
    def __init__(self) -> None:
        super().__init__(_TOO_LONG)


def check_resume(run: Run, task: Task, host: Profiling) -> None:
    """Add to the findings of a trial run in what a resumed run differs. Returns in children, too."""
    try:
        if task.state.num_bytes() > MOST_BYTES:
            raise NotTried("its state is large")
        if task.state.shard is not None and host.least_workers > 1:
            raise NotTried("one worker may be too small for the whole state")
        if fresh_check.can_fork():
            findings = _ResumeCheck(run, task, host).findings()
        else:
            findings = fresh_check.findings_of_fresh_process(host.terms.size)
    except _InChild:
        return
    except NotTried as why:
        findings = [_not_tried(str(why))]
    fresh_check.tell_if_fresh(findings)
    host.findings += findings
    host.divide()


def _not_tried(why: str) -> ScriptFinding:
    text = (
        f"going on from a checkpoint was not tried ({why}), so whether a worker that joins, and a job that "
        "goes on, learn the same is not known. `swell check` on an idle machine, of the script with a small "
        "model and short epochs, tries it; what is in run.state goes on in any case"
    )
    return ScriptFinding(name=NOT_RESUMED, text=text, holds=False)


class _ResumeCheck:
    """One comparison, of short runs in forked processes."""

    def __init__(self, run: Run, task: Task, host: Profiling) -> None:
        self._run, self._task, self._host = run, task, host
        self._left_s = BUDGET_S
        self._has_epoch_ends = False
        self._folders = RehearsalFolders()
        flush(open_files())  # or a child would write it again

    def findings(self) -> list[ScriptFinding]:
        whole = self._whole()
        if whole.error:
            return []  # the trial run itself tells
        found = [] if whole.counts is None else [_finding_of_next(whole.counts)]
        if not whole.model or not whole.saved:
            return found  # it leaves its loop, or makes several steps at once
        half = self._rehearse(whole)
        if half.model == whole.model:
            return found
        if self._rehearse().model != whole.model:
            raise NotTried("it does not learn the same twice")
        if half.error:
            text = f"a job of this script that goes on after {HALF_WAY} steps fails: {_last_line(half.error)}"
            return [ScriptFinding(name="script-state", text=text, place=whole.place)]
        return [_finding_of(whole, half), *found]

    def _whole(self) -> RehearsalResult:
        """Without an interruption; without the ends of epochs where these take long."""
        why: NotTried = _OutOfTime()
        for has_epoch_ends in (True, False) if self._host.has_epoch_ends else (False,):
            self._has_epoch_ends = has_epoch_ends
            try:
                whole = self._rehearse(limit_s=FIRST_S)
            except _OutOfTime as too_long:
                why = too_long
                continue
            if not any(refused in _last_line(whole.error) for refused in _REFUSED):
                return whole
            why = NotTried(f"it writes outside of its folder: {_last_line(whole.error)}")
        raise why

    # ------------------------------------------------------------------ processes
    def _rehearse(self, whole: RehearsalResult | None = None, limit_s: float = BUDGET_S) -> RehearsalResult:
        """What a child tells. Raises _OutOfTime if it does not in time, and _InChild in the child.

        Args:
            whole: it goes on from what this run had saved half way.
        """
        limit_s = min(limit_s, self._left_s)
        if limit_s <= 0:
            raise _OutOfTime
        folder = self._folders.make()
        saved = b"" if whole is None else whole.saved
        with tempfile.TemporaryFile() as file:
            pid = _fork()
            if pid == 0:
                told_to = os.dup(file.fileno())
                self._enter(folder)
                self._become(told_to, saved, limit_s)
                raise _InChild
            _, status, used = os.wait4(pid, 0)  # one that is killed while it tells has told a part
            self._left_s -= used.ru_utime + used.ru_stime
            status = os.waitstatus_to_exitcode(status)
            self._folders.remove(folder)
            file.seek(0)
            told = file.read() if status == 0 else b""
        if status == NOT_PRIVATE:
            raise NotTried("on this machine it could change files: neither overlays nor Landlock are there")
        if not told:
            raise _OutOfTime
        result: RehearsalResult = pickle.loads(told)  # noqa: S301 - of a child of this process
        return result

    def _enter(self, folder: str) -> None:
        try:
            self._folders.enter(folder)
        except OSError:
            os._exit(NOT_PRIVATE)

    def _become(self, handle: int, saved: bytes, limit_s: float) -> None:
        """This process is a child: it tells the agent nothing, and ends by itself."""
        for ending in (signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
            signal.signal(ending, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * limit_s)
        _silence(but=handle)
        torch.set_num_threads(1)  # the threads that there were are the parent's
        # A scripted model is compiled again after its first calls, and rounds otherwise from there on.
        torch._C._set_graph_executor_optimize(False)
        task = self._short()
        host = Rehearsal(self._host, task, handle, is_whole=not saved)
        self._host.terms.link.send = host.hear  # type: ignore[method-assign]
        if saved:
            task.state.restore(pickle.loads(saved))  # noqa: S301 - of a child of this process
        self._run.rehearse(host, task)

    def _short(self) -> Task:
        """The task with small batches, and with short epochs."""
        terms = self._host.terms
        course, size = terms.course, terms.size
        if course.is_stream:
            return replace(self._task, shown=None)
        short = replace(course, place=Place())
        if course.sampler is None:  # else it says how long an epoch is, and perhaps what a batch is
            most = (HALF_WAY - 1) * size if self._has_epoch_ends else course.num_samples
            num_samples, num_shards = min(course.num_samples, most), terms.num_shards or None
            short = replace(short, num_samples=num_samples, global_batch=size, num_shards=num_shards)
        short.total_steps = self._task.total_steps
        self._task.state.course = short
        return replace(self._task, course=short, shown=None)


def _silence(but: int) -> None:
    """Have what this process writes to files that it finds open go nowhere: they are the trial run's."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for each in (1, 2, *map(int, os.listdir("/proc/self/fd"))):
        try:
            is_written = fcntl.fcntl(each, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if each in (1, 2) or (is_written and each != but and stat.S_ISREG(os.fstat(each).st_mode)):
                os.dup2(silence, each)
        except OSError:
            continue  # the handle of the listing itself


def _fork() -> int:
    flush([sys.stdout, sys.stderr])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the other thread is the line's, which a child does not use
        return os.fork()


def _last_line(error: str) -> str:
    return (error.strip().splitlines() or [""])[-1]


def _finding_of(whole: RehearsalResult, rest: RehearsalResult) -> ScriptFinding:
    much = "parameters or buffers differ" if rest.model else "the script leaves its loop earlier"
    text = (
        f"a run that is saved after {HALF_WAY} steps and goes on in a new process is another one after "
        f"{NUM_STEPS}: {much}. Something that the script counts or keeps is neither in run.state nor in a "
        "variable that can be put back, as an `enumerate`, an iterator or a closure: make it before the loop "
        f"and keep it in run.state, or use run.steps, run.epoch or run.progress, which go on ({PAGE})"
    )
    return ScriptFinding(name="script-state", text=text, place=whole.place)


def _finding_of_next(counts: LoopExit) -> ScriptFinding:
    text = (
        f"{listed(counts.names)} in the loop counts the batches that the script takes with next(), also one "
        "that comes again when a worker is lost, and begins again in a worker that joins and when the job "
        "goes on. Write `while run.steps < total:` with run.steps as the number, or loop over "
        "run.batches()"
    )
    return ScriptFinding(name="script-state", text=text, place=counts.place)
