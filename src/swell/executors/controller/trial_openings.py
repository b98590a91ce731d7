"""Trial runs for which a host has yet to make ready: several at a time, so that no slow host holds all up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Protocol

from swell.executors.hosts.messages import trial_run
from swell.model.command import ProfileJob
from swell.model.event import Outcome

#: A host makes ready for no more trial runs at a time.
MOST_OF_HOST = 4
#: A host that has made ready for so long gets no other trial run that another host can have.
SLOW_S = 10.0


class HostChooser(Protocol):
    def now_s(self) -> float:
        """Time of the controller's clock."""

    def host_with(self, kind: str, avoid: Container[str], but: Container[str] = ()) -> str:
        """The host with the most devices of a kind, some left out, that is not one of `but`; empty if there
        is none.
        """

    def open_trial(self, host: str, run: str, command: ProfileJob) -> None:
        """Have a host open this run; answered by `Trials.opened`, or
        `Trials.refused`, later or before this returns.
        """


@dataclass(slots=True)
class TrialOpening:
    """One of them."""

    command: ProfileJob
    host: str
    since_s: float
    refused_by: set[str] = field(default_factory=set)
    is_called_off: bool = False


class TrialOpenings:
    """Trial runs whose hosts are still preparing, by run. The owner decides when the next one may begin."""

    def __init__(self, chooser: HostChooser) -> None:
        self._chooser = chooser
        self._openings: dict[str, TrialOpening] = {}

    @property
    def jobs(self) -> tuple[str, ...]:
        """Whose trial run waits for a host."""
        return tuple(opening.command.job_id for opening in self._openings.values())

    def wants(self, job_id: str) -> bool:
        """Whether the job is among them, and its trial run is not called off."""
        opening = self._openings.get(trial_run(job_id))
        return opening is not None and not opening.is_called_off

    # ------------------------------------------------------------ it begins
    def is_under_way(self, job_id: str) -> bool:
        """Whether a host has yet to answer for a run of the job; one that was called off is one."""
        return trial_run(job_id) in self._openings

    def choose_host(self, command: ProfileJob) -> str | None:
        """Empty: there is none; None: it has enough to do."""
        host = self._choose(command, set())
        return None if self._nums[host] >= MOST_OF_HOST else host

    def begin(self, host: str, command: ProfileJob) -> None:
        """The answer may come before this returns."""
        run = trial_run(command.job_id)
        self._openings[run] = TrialOpening(command, host, self._chooser.now_s())
        self._chooser.open_trial(host, run, command)

    def _choose(self, command: ProfileJob, but: set[str]) -> str:
        kind, avoid = command.device_kind, command.avoid
        if slow := self._slow_hosts - but:
            return self._chooser.host_with(kind, avoid, but | slow) or self._chooser.host_with(
                kind, avoid, but
            )
        return self._chooser.host_with(kind, avoid, but)

    @property
    def _nums(self) -> Counter[str]:
        return Counter(opening.host for opening in self._openings.values())

    @property
    def _slow_hosts(self) -> set[str]:
        now_s = self._chooser.now_s()
        return {o.host for o in self._openings.values() if now_s - o.since_s >= SLOW_S}

    def job_of(self, run: str) -> str:
        """Empty: it is not among them."""
        opening = self._openings.get(run)
        return "" if opening is None else opening.command.job_id

    # ------------------------------------------------------------ it ends
    def cancel(self, job_id: str) -> None:
        """The answer of the host is awaited all the same."""
        if (opening := self._openings.get(trial_run(job_id))) is not None:
            opening.is_called_off = True

    def opened(self, run: str, host: str) -> TrialOpening | None:
        """Whose run the host has answered for; None if no trial waits for that."""
        opening = self._openings.get(run)
        if opening is None or opening.host != host:
            return None
        return self._openings.pop(run)

    def refused(self, run: str, host: str, outcome: Outcome) -> TrialOpening | None:
        """One that comes to nothing. None: no trial waits for that, or another host is asked, which may have
        what this one lacks.
        """
        opening = self._openings.get(run)
        if opening is None or opening.host != host:
            return None
        opening.refused_by.add(opening.host)
        is_final = outcome is Outcome.FAILED or opening.is_called_off
        return self._openings.pop(run) if is_final or not self._opens_elsewhere(run, opening) else None

    def lose_host(self, host: str) -> list[TrialOpening]:
        """Those that come to nothing with it: no other host is left. The others begin elsewhere."""
        lost = [(run, opening) for run, opening in self._openings.items() if opening.host == host]
        failed = [run for run, o in lost if o.is_called_off or not self._opens_elsewhere(run, o)]
        return [self._openings.pop(run) for run in failed]

    def _opens_elsewhere(self, run: str, opening: TrialOpening) -> bool:
        host = self._choose(opening.command, opening.refused_by)
        if host:
            opening.host, opening.since_s = host, self._chooser.now_s()
            self._chooser.open_trial(host, run, opening.command)
        return bool(host)
