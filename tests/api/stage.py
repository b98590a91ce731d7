"""A platform in this process with its API: real head, real journal, hands that obey at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.parts import NODE, Hands
from tests.live.test_platform import PATIENCE_S, until

from swell.api.client import Client, connect
from swell.api.connections import ApiServer, bind
from swell.api.daemon import serve_network
from swell.api.intake import SubmissionCheck
from swell.api.server import create_app
from swell.api.unix_socket import listen
from swell.api.user_list import UserList, set_quotas
from swell.executors.remote.host_address import HostAddress
from swell.live.head_thread import Site
from swell.live.platform import Platform
from swell.live.user_rates import RateLimits, UserRates
from swell.model.code import CodeLimits
from swell.model.job import Phase
from swell.scheduler import new_core
from swell.settings import Settings
from swell.store.folder import ApiAddress, StateFolder
from swell.store.journal import SqlJournal


@dataclass(frozen=True, slots=True)
class Stage:
    folder: StateFolder
    platform: Platform
    hands: Hands
    client: Client

    def run(self, script: Path, **fields: Any) -> str:
        """A job of 100 steps of 8 samples that trains by the time this returns."""
        given: dict[str, Any] = {"global_batch": 8, "steps": 100, "script": script}
        job_id = str(self.client.submit(**(given | fields)))  # hands tell of it in events
        until(lambda: self.platform.job(job_id).phase is Phase.RUNNING)
        return job_id

    def written(self) -> dict[str, bytes]:
        """All that is on disk of the journal, file by file."""
        return journal_bytes(self.folder)


def journal_bytes(folder: StateFolder) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes() for file in folder.path.glob("journal.db*") if file.suffix != ".db-shm"
    }


@contextmanager
def on_stage(
    path: Path,
    policy: str = "elasticflow",
    settings: Settings | None = None,
    reads_files: bool = False,
    limits: RateLimits | None = None,
) -> Iterator[Stage]:
    """Up on the two devices of `NODE`; in good order down at the end.

    Args:
        reads_files: code of jobs is kept, and the network is served.
        limits: of users.
    """
    folder = StateFolder(path)
    folder.create()
    journal, hands = SqlJournal(folder.journal), Hands()
    site = Site(jobs_dir=folder.jobs, policy=policy, nodes=(NODE,))
    quotas = set_quotas(UserList(path), policy)
    platform = Platform(site, new_core(settings=settings), journal, hands, read_quotas=quotas)
    platform.recover(journal.history())
    intake = SubmissionCheck(folder, CodeLimits()) if reads_files else None
    rates = UserRates(limits or RateLimits())
    app = create_app(
        platform, folder.ensure_token(), UserList(path), intake, served=["served.example"], rates=rates
    )
    server = ApiServer(app, bind(), listen(folder.socket))
    server.start()
    url, fingerprint = "", ""
    if reads_files:
        url, fingerprint = serve_network(server, path, HostAddress("127.0.0.1", 0))
    platform.start()
    thread = threading.Thread(target=platform.run)
    thread.start()
    port = server._listeners[0].getsockname()[1]
    folder.write_endpoint(ApiAddress.of_this_process(port, network_url=url, fingerprint=fingerprint))
    try:
        with connect(path) as client:
            until(lambda: client.cluster().num_devices == len(NODE.devices))
            yield Stage(folder, platform, hands, client)
    finally:
        platform.stop()
        thread.join(PATIENCE_S)
        folder.remove_endpoint()
        server.stop()
        journal.close()
