"""Gangs that have broken do not wait for hosts without a line."""

from __future__ import annotations

import logging

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.gang_commands import GangCommands
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.run import DirectedRun
from swell.executors.controller.takeover import Takeover
from swell.executors.gang.elastic_controller import ElasticController

#: A gang that has broken waits so long for a host without a line: it is dead, or comes back at once.
UNREACHED_S = 1.0

log = logging.getLogger("swell.hosts")


class UnreachedHosts:
    """They may be dead, or be back later: see `takeover` for what becomes of their workers then."""

    def __init__(
        self, hosts: KnownHosts, runs: DirectedRuns, commands: GangCommands, takeover: Takeover
    ) -> None:
        self._hosts, self._runs, self._commands, self._takeover = hosts, runs, commands, takeover

    def pass_time(self) -> None:
        """Gangs that have broken go on without workers on hosts that have no line, and may be dead.

        Those may live: no gang gets their devices until they have been killed, or their host is lost.
        """
        unreached = self._hosts.unreached(self._runs.now_s(), UNREACHED_S)
        if not unreached or not self._takeover.is_over:
            return
        for run in list(self._runs.by_key.values()):
            hosts = set(run.workers.values())
            is_broken = isinstance(run.director, ElasticController) and run.director.gang.is_broken
            if is_broken and hosts - unreached:
                for host in sorted(hosts & unreached):
                    self._leave_workers(run, host)

    def _leave_workers(self, run: DirectedRun, host: str) -> None:
        why = f"host {host!r} is not reached, and job {run.job_id!r} goes on without it"
        log.warning("%s; its devices are not used until its workers are known to be gone", why)
        reports = self._runs.reports
        offered, lost_nodes = self._hosts.withdraw(host, why)
        reports.report_all(lost_nodes)
        left = [worker for worker, of in run.workers.items() if of == host]
        self._takeover.leave_workers(host, run.key, left, offered)
        reports.usage.leave_host(run.job_id, host)
        self._runs.lose_workers(run, host, why)
        self._commands.leave_host(run.job_id, host, why)
