"""Parts of trial runs that measure all-reduces over several hosts: on which of them, once they are ready."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from swell.executors.controller.trial_runner import RunningTrial, TrialRunner
from swell.executors.hosts.messages import RunOpened

#: Hosts that have not made ready by then are not waited for: reports of gangs will show what crossing takes.
READY_WITHIN_S = 10.0

log = logging.getLogger("swell.agent")


class CrossingTrials:
    """Devices are used only if they are idle: no job waits for a measurement of crossing."""

    def __init__(self, runner: TrialRunner) -> None:
        self._runner = runner
        self._never: set[frozenset[str]] = set()  #: hosts whose workers did not find each other
        self._chosen: dict[str, frozenset[str]] = {}  #: hosts of the latest part, by run

    def devices_of_hosts(self, begun_on: str, kind: str, avoid: Collection[str]) -> list[int]:
        """Devices of the kind on each host that has some."""
        machines = map(self._runner.machine, self._hosts(begun_on, kind, avoid))
        return [replace(machine, avoid=avoid).num_of(kind) for machine in machines]

    def begin(self, begun: RunningTrial, is_taken: Collection[str]) -> bool | None:
        """Whether a part began; None: none can, and none is to be waited for.

        Args:
            is_taken: devices of other trial runs.
        """
        trial, run, now_s = begun.trial, begun.run, self._runner.now_s()
        num_hosts, size = trial.missing_spreads[0]
        devices = self._idle(begun, is_taken, num_hosts, size // num_hosts)
        chosen = list(devices)
        if len(chosen) < num_hosts or frozenset(chosen) in self._never:
            trial.skip_crossing()
            return None
        for host in chosen:
            if host not in run.checkpoint_dirs and host not in begun.asked_s:
                begun.asked_s[host] = now_s
                self._runner.open_trial(host, run.key, begun.command)
        lacking = [host for host in chosen if host not in run.checkpoint_dirs]
        if trial.is_over or not trial.missing_spreads:
            return None
        if any(now_s - begun.asked_s[host] > READY_WITHIN_S for host in lacking):
            trial.skip_crossing()
            return None
        if lacking:
            return False
        for host in chosen:
            begun.bindings.update(self._runner.machine(host).bindings)
        self._chosen[run.key] = frozenset(chosen)
        flat = [device for host in chosen for device in devices[host]]
        self._runner.do(run, trial.begin_crossing(flat, num_hosts, now_s))
        return True

    def opened(self, begun: RunningTrial, host: str, opened: RunOpened) -> None:
        begun.run.checkpoint_dirs[host] = opened.checkpoint_dir
        begun.trial.number_from(opened.first_worker)

    def ended(self, begun: RunningTrial) -> None:
        """It may have found out that these hosts do not reach each other. Anything else may pass."""
        hosts = self._chosen.pop(begun.run.key, frozenset())
        if begun.trial.failed_crossing:
            named = ", ".join(sorted(hosts))
            log.warning("all-reduces over %s were not measured: %s", named, begun.trial.failed_crossing)
            if begun.trial.is_crossing_unformed:
                self._never.add(hosts)

    def lose_host(self, host: str) -> None:
        """It may be reached once it is there again, or is what the others did not reach."""
        self._never = {hosts for hosts in self._never if host not in hosts}

    def _idle(
        self, begun: RunningTrial, is_taken: Collection[str], num_hosts: int, each: int
    ) -> dict[str, tuple[str, ...]]:
        """Return `each` idle devices of at most so many hosts; the run's own host comes first."""
        command = begun.command
        idle: dict[str, tuple[str, ...]] = {}
        for host in self._hosts(begun.host, command.device_kind, command.avoid):
            if len(idle) == num_hosts:
                break
            machine = replace(self._runner.machine(host), avoid=command.avoid)
            devices = machine.idlest(command.device_kind, each)
            has_others = any(device in machine.bindings for device in is_taken)
            if devices and not has_others and machine.is_idle(devices):
                idle[host] = devices
        return idle

    def _hosts(self, first: str, kind: str, avoid: Collection[str]) -> list[str]:
        """Return `first`, and then all other hosts with a device of this kind that is not in `avoid`."""
        return [first, *(host for host in self._runner.hosts_with(kind, avoid) if host != first)]
