"""What trial runs need of the controller, and one of them that has begun."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from swell.executors.controller.run import DirectedRun
from swell.executors.controller.trial_devices import Machine
from swell.executors.controller.trial_openings import HostChooser
from swell.executors.gang.effects import Effect
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.gang.trial_controller import Trial
from swell.model.command import ProfileJob
from swell.model.event import AnyEvent


class TrialRunner(HostChooser, Protocol):
    """Who runs processes for the trials."""

    def machine(self, host: str) -> Machine:
        """Devices of one host, and how many processes each has now."""

    def hosts_with(self, kind: str, avoid: Container[str]) -> list[str]:
        """Hosts with devices of a kind, some left out: those with the most first."""

    def close_trial(self, host: str, run: str) -> None:
        """Tell a host that has opened this run that it is not needed."""

    def begin_run(self, run: DirectedRun) -> None:
        """Register a run that is open."""

    def do(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        """Perform the effects in order."""

    def report(self, event: AnyEvent) -> None:
        """Send the event to the daemon, or keep it until there is one."""


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial run that may have processes."""

    command: ProfileJob
    trial: Trial
    run: DirectedRun
    host: str
    bindings: dict[str, DeviceBinding]  #: of its host's devices, and of those that it crosses to
    asked_s: dict[str, float] = field(
        default_factory=dict
    )  #: other hosts that were asked to open it, and when
