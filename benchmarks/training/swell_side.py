"""The other side: Swell's own agent and workers, with a head that says what the benchmark wants."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.training.sides import ROOT, LogFolder, SideFailed, environ
from benchmarks.training.train import CHECKPOINT_INTERVAL_S, ENDLESS, GLOBAL_BATCH
from swell.executors.gang.job_context import GangSettings
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import AnyEvent, GangEnded, Outcome, ResizeFailed, WorkersLost
from swell.model.job import EndCondition, JobSpec
from swell.model.target import Target

MAX_WORKERS = 8
DEVICES = os.environ.get("BENCH_DEVICES", f"cpu:{MAX_WORKERS}")
JOB = "bench"


class SwellSide:
    """The executor of `swell up`, whose commands come from here instead of from a policy."""

    name = "swell"

    def __init__(self, folder: Path, entry: Path, args: Sequence[str], num_processes: int = 1) -> None:
        """
        Args:
            folder: is made.
            entry: the training script.
            num_processes: of each worker. What this side counts are processes all the same.
        """
        folder.mkdir(parents=True)
        self.folder = folder
        self.log_folders: Sequence[LogFolder] = (LogFolder(folder),)
        os.environ.update(environ())  # the agent is started by the executor, in this environment
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # `close` ends the agent, which else goes on
        gang_settings = GangSettings(checkpoint_interval_s=CHECKPOINT_INTERVAL_S)
        self._executor = LocalExecutor(
            AgentOptions(state_dir=folder / "state", gang_settings=gang_settings),
            parse_devices(DEVICES),
        )
        self._spec = JobSpec(
            name=JOB,
            entry=str(entry),
            workdir=str(ROOT),
            global_batch=GLOBAL_BATCH,
            args=tuple(args),
            end=EndCondition(steps=ENDLESS),
            devices_per_worker=num_processes,
            processes_per_worker=num_processes,
        )
        self._lock = threading.Lock()
        self._generation = 0
        self._devices: tuple[str, ...] = ()
        self._failure = ""
        self._has_ended = threading.Event()

    def start(self, num_workers: int) -> None:
        self._executor.start(self._hear)
        with self._lock:
            self._generation, self._devices = 1, _devices(num_workers)
            self._executor.perform(
                LaunchGang(
                    job_id=JOB,
                    generation=1,
                    target=Target(devices=self._devices),
                    spec=self._spec,
                    total_steps=ENDLESS,
                )
            )

    def resize(self, num_workers: int) -> None:
        with self._lock:
            self._resize(_devices(num_workers))

    def settle(self, num_workers: int) -> None:
        self.resize(num_workers)

    def check(self) -> None:
        if self._failure:
            raise SideFailed(f"swell: {self._failure}; its logs are in {self.folder}")

    def await_end(self, limit_s: float) -> None:
        """Until the script has come to its end. Raises SideFailed."""
        if not self._has_ended.wait(limit_s):
            raise SideFailed(f"swell: no end within {limit_s:g} s; its logs are in {self.folder}")
        self.check()

    def close(self) -> None:
        self._executor.shut_down()

    def _hear(self, event: AnyEvent) -> None:
        """What a head does first when workers are lost: let those that are left train on."""
        if isinstance(event, WorkersLost):
            with self._lock:
                self._resize(tuple(device for device in self._devices if device not in event.devices))
        elif isinstance(event, GangEnded) and event.outcome is Outcome.SUCCEEDED:
            self._has_ended.set()
        elif isinstance(event, ResizeFailed | GangEnded):
            self._failure = self._failure or f"{type(event).__name__}: {event.message}"
            self._has_ended.set()

    def _resize(self, devices: tuple[str, ...]) -> None:
        self._generation += 1
        self._devices = devices
        self._executor.perform(
            Reconfigure(job_id=JOB, generation=self._generation, target=Target(devices=devices))
        )


def _devices(num: int) -> tuple[str, ...]:
    return tuple(f"node0/{number}" for number in range(num))
