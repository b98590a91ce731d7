"""`swell.assemble` over a fake platform, with a real folder, lock and journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import AgentError
from swell.executors.local.limits.control_groups import check_sharing
from swell.live.board import ViewBoard
from swell.live.job_source import JobSource
from swell.live.news import NO_ADDRESSES, Addresses
from swell.live.recovery import Replay
from swell.model.job import Phase
from swell.model.quota import NO_QUOTAS, Quotas
from swell.model.view import JobView
from swell.platform_options import PlatformOptions
from swell.policies.registry import POLICIES, UnknownPolicy
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import lock_state


class FakePlatform(FakeControl):
    num_open = 0
    remarks = {}

    def start(self) -> None:
        """There is no machine; or it has no agent (`FAKE_PLATFORM=no_agent`)."""
        if os.environ.get("FAKE_PLATFORM") == "no_agent":
            raise AgentError("the agent ended with status 1; its log ends: no room")

    def run(self) -> None:
        if os.environ.get("FAKE_PLATFORM") == "dies":
            raise RuntimeError("a mistake of ours")
        self.stopped.wait()


def new_core(policy: str) -> None:
    raise AssertionError(f"a platform without a head asks for one with {policy}")


@contextmanager
def open_platform(
    folder: StateFolder,
    options: PlatformOptions,
    addresses: Addresses = NO_ADDRESSES,
    read_quotas: Callable[[], Quotas] = lambda: NO_QUOTAS,
) -> Iterator[FakePlatform]:
    check_sharing(options.sharing)
    nodes = parse_devices(options.devices, options.sharing.cores, options.rack)
    if options.policy not in POLICIES:
        raise UnknownPolicy(options.policy)
    folder.create()
    with lock_state(folder.lock):
        journal = SqlJournal(folder.journal)
        platform = FakePlatform(folder.jobs)
        platform.cores = options.sharing.cores
        platform.rack = nodes[0].node.rack if nodes else "rack0"
        if why := os.environ.get("FAKE_LACK"):
            platform.warnings = {"cpu shares": why}
        yield platform
        journal.close()


def unended_jobs(state_dir: Path) -> list[JobView]:
    """`FAKE_JOBS=a:running:7 b:queued`: ids, phases, and live pids."""
    told = [word.split(":") for word in os.environ.get("FAKE_JOBS", "").split()]
    return [
        job_view(id=name, phase=Phase(phase), live_pids=tuple(map(int, pids))) for name, phase, *pids in told
    ]


@contextmanager
def open_lookup(state_dir: Path) -> Iterator[JobSource]:
    """No job: the fake keeps no batches."""
    folder = StateFolder(state_dir)
    with closing(SqlJournal(folder.journal)) as journal:
        yield JobSource(ViewBoard(), journal)


def replay_journal(state_dir: Path) -> Replay:
    found = os.environ.get("FAKE_DIFFERENCE")
    num_batches = int(os.environ.get("FAKE_BATCHES", "12"))
    return Replay(
        num_batches=num_batches,
        num_commands=30 if num_batches else 0,
        num_compared=11 if num_batches else 0,
        first_difference=int(found) if found else None,
    )
