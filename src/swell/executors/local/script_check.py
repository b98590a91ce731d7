"""Makes the trial run of a script without a platform: by an agent that lives as long as that."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.executors.controller.protocol import EventTold
from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.process import WorkerSupervisor
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, ProfilingFailed
from swell.model.job import JobSpec
from swell.model.target import ShareKind
from swell.script_facts import ScriptFinding

#: Of the whole check.
LIMIT_S = 300.0
PRELOAD = ("torch", "swell.train.runtime.runner")


@dataclass(frozen=True, slots=True)
class ScriptChecked:
    """What became of it."""

    findings: tuple[ScriptFinding, ...] = ()
    failure: str = ""  #: why nothing was compared: the end of the script's output, or what it did not do


def check_script(entry: str, args: Sequence[str], device: DeviceBinding) -> ScriptChecked:
    """Run a script up to its first steps, compare one worker with two, and end it after an epoch's end.

    It runs in a mirror of the current folder, so that what it writes is gone afterwards.

    Args:
        entry: path of a script, or `package.module:function` in the current folder.
    """
    script = os.path.abspath(entry) if os.path.isfile(entry) else entry
    spec = JobSpec(name="check", entry=script, args=tuple(args), workdir=os.getcwd(), global_batch=0)
    with tempfile.TemporaryDirectory(prefix="swell-check-", ignore_cleanup_errors=True) as folder:
        options = AgentOptions(
            state_dir=Path(folder).resolve(),
            preload=PRELOAD,
            gang_settings=GangSettings(trial_s=LIMIT_S),
            sharing=CoreSharing(mode=ShareKind.OFF),
        )
        lock_fd = hold_lock(options.state_dir)
        try:
            answer = asyncio.run(_try_out(spec, device, options, lock_fd))
        finally:
            os.close(lock_fd)
    if answer is None:
        raise KeyboardInterrupt
    if isinstance(answer, ProfilingFailed):
        return ScriptChecked(failure=answer.message)
    return ScriptChecked(findings=answer.profile.findings or ())


class _TrialLine:
    """In the place of a daemon's line (`DaemonLine`): takes the answer to the only command."""

    is_open, is_full = True, False

    def __init__(self, answered: asyncio.Event) -> None:
        self._answered = answered
        self.answer: JobProfiled | ProfilingFailed | None = None

    def send(self, message: msgspec.Struct) -> None:
        if isinstance(message, EventTold) and isinstance(message.event, JobProfiled | ProfilingFailed):
            self.answer = message.event
            self._answered.set()


async def _try_out(
    spec: JobSpec, device: DeviceBinding, options: AgentOptions, lock_fd: int
) -> JobProfiled | ProfilingFailed | None:
    """Return what the trial run comes to; None: it was interrupted."""
    supervisor = WorkerSupervisor(options, lock_fd)
    line = _TrialLine(supervisor.stopped)
    await supervisor.listen()
    supervisor.controller.attach(line, "check")
    supervisor.host.offer({"check/0": device})
    trial = ProfileJob(job_id=spec.name, spec=spec, sizes=(1, 2), device_kind=device.kind)
    supervisor.controller.perform(1, trial)
    await supervisor.stopped.wait()
    await supervisor.shut_down()
    return line.answer
