"""What a forked worker does: run the user's script, and tell the agent how it ended."""

from __future__ import annotations

import errno
import importlib
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

import torch

from swell.train.collective.group import OWN_GROUP, comes_of_own_group, is_out_of_memory
from swell.train.collective.process_groups import NoInterface
from swell.train.data.random_streams import begin_script
from swell.train.data.sample_schedule import Share
from swell.train.libraries import adapt_libraries
from swell.train.link.agent_link import Link, close_script, exit_now, open_link
from swell.train.link.code_paths import (
    is_of_swell,
    is_own,
    place_of_error,
    snapshotted,
    submitted,
    use_snapshot,
    why_missing,
)
from swell.train.runtime import unmanaged_script
from swell.train.runtime.run import started
from swell.train.runtime.unmanaged_script import DistributedCheck
from swell.wire import environ, messages
from swell.wire.private_files import are_private

#: The last part of a traceback, where the error itself stands.
MAX_MESSAGE_CHARS = 4000


class NotElasticError(RuntimeError):
    """The script ended without having called `swell.train.elastic`."""


def run_entry(entry: str, args: Sequence[str]) -> NoReturn:
    """Run a script (a path) or a function (`package.module:function`), then end this process.

    Under an agent the line to it is opened first, so that a script that dies while it is imported can
    be told of; without one, as in a job whose elasticity is `restart`, the script just runs, and its steps
    are counted. One that ends well is given the time that its own threads need.
    Exit status: 0; 1 if the script raised; 143 if it was told to stop, or if memory ran out and it may come
    again with smaller passes; its own if it called `sys.exit`.
    """
    signal.signal(signal.SIGTERM, _leave)
    link, check = _connect()
    status = 0
    try:
        from swell.train.collective import peer_names  # asks when imported: before the fork, by default

        peer_names.wait_for_no_names()
        if link is not None:
            begin_script(torch.device(link.welcome.device), link.welcome.seed)
            adapt_libraries()
        _run(entry, args)
        if check is not None:
            check.ended()
        if link is not None:
            _close(link, entry)
    except SystemExit as stop:
        _ignore_stops()
        status = _status_of(stop)
        if link is not None and status not in (0, environ.EXIT_STOPPED):
            _keep(stop, is_end=True)
            link.send(
                messages.Failed(message=_told_of(link, entry, stop, status), steps=link.heartbeat.steps)
            )
        elif link is not None and status == 0:
            _close_at_exit(link, stop)
    except BaseException as error:  # noqa: BLE001 - it is the user's, it is told, and the process ends
        _ignore_stops()
        text = _why_read_only(error) + _traceback_of(error)
        if link is not None and comes_of_own_group(error.__traceback__):
            text = f"{OWN_GROUP}\n{text}"
        sys.stderr.write(text)
        status = 1 if link is None else _tell(link, error, text)
    if status == 0:
        status = _await_threads()
    close_script()
    exit_now(status)


def _tell(link: Link, error: BaseException, text: str) -> int:
    """Why the script ended, with the traceback `text`; returns the exit status."""
    last_line = text.rstrip().splitlines()[-1][-MAX_MESSAGE_CHARS:]
    advice, share = None, None
    if started:
        started[-1].settle(error, last_line)
        share = started[-1].share if is_out_of_memory(error) else None
    if share is not None:
        # A gang takes smaller passes also where the update did not fit: it loses little.
        advice = why_hopeless(share)
        if advice is None:
            _keep(error, is_end=False)
            link.send(messages.OutOfMemory(num_samples=largest_pass(share), message=last_line))
            return environ.EXIT_STOPPED
    _keep(error, is_end=True)
    text = _shortened(text, error)
    message = text if advice is None else f"{advice}\n{text}"
    link.send(messages.Failed(message=message, steps=link.heartbeat.steps))
    return 1


def largest_pass(share: Share) -> int:
    """Samples that go through the model together at most; a borrowed one counts: it needs room too."""
    return max(len(part.indices) for part in share.passes)


def why_hopeless(share: Share) -> str | None:
    """What to do about a step that does not fit, where it cannot be cut smaller; None where it can."""
    num_samples = largest_pass(share)
    if num_samples == 1:
        return (
            "one sample does not fit into the device's memory, with the model and the optimizer's state; "
            "divide the model among devices (--devices-per-worker), make it or the samples smaller, compute "
            "in half precision, or use a larger device"
        )
    if share.num_shards:
        return (
            f"a shard of {num_samples} samples does not fit into the device's memory, and with "
            "deterministic=True a shard is never cut, for that would change the sums; raise elastic()'s "
            f"shards={share.num_shards}, to {2 * share.num_shards} for instance, and submit the job again"
        )
    return None


def _keep(error: BaseException, is_end: bool) -> None:
    """Save the state, if this worker is the one to; see `Run.keep`.

    The agent ends all workers as soon as it hears that one has failed: it is saved before that.
    """
    if not started:
        return
    try:
        started[-1].see_end()
        if not is_end:  # what the failed step allocated is of no more use
            traceback.clear_frames(error.__traceback__)
        started[-1].keep(is_end)
    except Exception as again:  # noqa: BLE001 - of the script's own state_dict; what it raised first is told
        sys.stderr.write(f"the state after step {started[-1].steps} was not saved: {again!r}\n")


def _await_threads() -> int:
    """Let the script's threads and thread pools finish, as the interpreter does; 143 if told not to wait."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except SystemExit as stop:
        _ignore_stops()
        return _status_of(stop)
    return 0


def _connect() -> tuple[Link | None, DistributedCheck | None]:
    """The line to the agent of a script that knows Swell, or what watches one that does not."""
    try:
        if environ.AGENT in os.environ:
            return open_link(), None
        return None, unmanaged_script.watch() if environ.OBSERVER in os.environ else None
    except (ConnectionError, NoInterface) as error:
        sys.stderr.write(f"{error}\n")
        exit_now(1)


def _run(entry: str, args: Sequence[str]) -> None:
    use_snapshot()
    if (own := os.environ.get(environ.LOCAL_BATCH)) is not None:
        args = [arg.replace("{local_batch}", own) for arg in args]
    module, _, function = entry.partition(":")
    if os.sep not in entry and not os.path.isfile(entry):
        sys.argv = [entry, *args]
        sys.path.insert(0, snapshotted(os.environ.get(environ.WORKDIR) or os.getcwd()))
        if function:
            getattr(importlib.import_module(module), function)()
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        script = snapshotted(entry)
        sys.argv = [script, *args]
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")


def _close(link: Link, entry: str) -> None:
    """The script ended by itself."""
    _finish_all()
    if not link.has_said(messages.Ready):
        raise NotElasticError(
            f"{entry} ended without calling swell.train.elastic, so there is nothing to resize; call it as "
            "docs/how-to/make-a-script-elastic.md shows, or submit the script with `elasticity: restart`"
        )


def _close_at_exit(link: Link, stop: SystemExit) -> None:
    """End the runs of a script that has called `sys.exit()`.

    In a trial it is as one that leaves its loop: what was measured counts.
    """
    if link.welcome.mode == "train" and any(run.is_early(stop) for run in started):
        # Its peers may go on: nothing is done together with them.
        _keep(stop, is_end=True)
        place = place_of_error(stop)
        link.send(messages.Finished(steps=link.heartbeat.steps, is_early=True, place=place))
    elif link.welcome.mode in ("train", "profile"):
        _finish_all(stop)


def _finish_all(stop: SystemExit | None = None) -> None:
    for run in started:
        run.finish(stop)


def _told_of(link: Link, entry: str, stop: SystemExit, status: int) -> str:
    """A script that ended itself: how, and whether it had got to its loop."""
    text = f"script {entry} ended with exit status {status}"
    if not link.has_said(messages.Ready):
        text = f"{text} before it called swell.train.elastic"
    return text if isinstance(stop.code, int) else f"{text}: {stop.code}"


def _ignore_stops() -> None:
    """The process ends anyway, and says why first: where one worker fails, the others are told to stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(environ.EXIT_STOPPED)


def _status_of(stop: SystemExit) -> int:
    """The exit status that Python itself gives: 0 without a code, and 1 for a text, which goes to stderr."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _traceback_of(error: BaseException) -> str:
    """The traceback from the user's first line on, without ours above it, in files as they were submitted.

    It ends in the user's script if Swell raises the error on purpose.
    """
    frames, limits = _user_part(error.__traceback__), dict[str, Any]()
    if is_of_swell(error):
        codes = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(frames)]
        shown = [place for place, (frame, _) in enumerate(traceback.walk_tb(frames), 1) if not is_own(frame)]
        num_frames = max((place for place in shown if codes[place - 1][0] != "<"), default=0)
        limits = {"limit": num_frames, "chain": error.__cause__ is not None}
    lines = traceback.format_exception(type(error), error, frames, **limits)
    return why_missing(error) + submitted("".join(lines))


def _shortened(text: str, error: BaseException) -> str:
    """Return the end of a traceback; of an error with a long text, such as many keys, its two ends."""
    said = submitted("".join(traceback.format_exception_only(error)))
    if len(said) > MAX_MESSAGE_CHARS // 2:
        end = MAX_MESSAGE_CHARS // 4
        text = text.replace(said, f"{said[:end]}\n  ...\n{said[-end:]}")
    return text[-MAX_MESSAGE_CHARS:]


def _why_read_only(error: BaseException) -> str:
    if (
        not isinstance(error, OSError)
        or error.errno not in (errno.EROFS, errno.EOVERFLOW)
        or not are_private()
    ):
        return ""
    return (
        "a trial run has files of its own, and can write neither to a folder of another user nor to one in "
        f"which file systems are mounted: write to another folder, or not while {environ.TRIAL} is 1\n"
    )


def _user_part(frames: TracebackType | None) -> TracebackType | None:
    ours = (__file__, runpy.__file__, "<frozen runpy>", importlib.__file__, "<frozen importlib._bootstrap>")
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return frames
