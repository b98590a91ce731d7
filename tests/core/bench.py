"""A core on a bench: a test speaks the machines' part word for word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tests.core.fakes import Fixed, core_of, node, profile, spec

from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand, Command, LaunchGang, WakeAt
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    Event,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Outcome,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.job import JobSpec, Phase
from swell.model.view import JobView
from swell.placement.best_fit import BestFitPlacer

Kind = TypeVar("Kind", bound=Command)


def only(commands: Sequence[AnyCommand], kind: type[Kind]) -> Kind:
    """The one command that there is, which is of this kind."""
    [command] = commands
    assert isinstance(command, kind)
    return command


class Bench:
    """Eight devices `n0.0` to `n0.7`, and a policy that gives what `wanted` says, at once."""

    def __init__(
        self, num_devices: int = 8, policy: Fixed | None = None, placer: BestFitPlacer | None = None
    ) -> None:
        self.policy, self._placer = policy or Fixed(), placer
        self.core = self._new_core()
        self.now_s = 100.0
        self.told_steps = 0  #: by a job of which none is shown
        self.ended: dict[str, JobView] = {}
        self.say(NodeJoined(at_s=self.now_s, node=node("n0", num_devices)))

    def _new_core(self) -> PlatformCore:
        return PlatformCore(lambda: core_of(self.policy, self._placer))

    def reborn(self, saved: bytes | None = None) -> PlatformCore:
        """Another one with this state; None: with that of the present one."""
        core = self._new_core()
        core.load(self.core.save() if saved is None else saved)
        return core

    def say(self, *events: Event, after_s: float = 1.0) -> list[AnyCommand]:
        """Commands of one turn, timers apart."""
        batch: list[AnyEvent] = list(events)  # type: ignore[arg-type]
        commands = self._handle(batch)
        self.ended.update({view.id: view for view in self.core.ended_views()})
        self.now_s += after_s
        return [command for command in commands if not isinstance(command, WakeAt)]

    def _handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        return self.core.handle(batch)

    def want(self, **workers: int) -> None:
        self.policy.wanted.update(workers)

    # ------------------------------------------------------------ what machines and users say
    def submit(self, job_id: str, job: JobSpec | None = None) -> list[AnyCommand]:
        return self.say(JobSubmitted(at_s=self.now_s, job_id=job_id, spec=job or spec(1000)))

    def profiled(self, job_id: str) -> list[AnyCommand]:
        return self.say(JobProfiled(at_s=self.now_s, job_id=job_id, profile=profile()))

    def cancel(self, job_id: str) -> list[AnyCommand]:
        return self.say(CancelRequested(at_s=self.now_s, job_id=job_id))

    def started(self, generation: int, job_id: str = "a", steps: int = 0) -> list[AnyCommand]:
        return self.say(GangStarted(**self._facts(job_id, generation), steps=steps, pids=(1,)))

    def resized(self, generation: int, job_id: str = "a", steps: int = 5) -> list[AnyCommand]:
        return self.say(GangResized(**self._facts(job_id, generation), steps=steps, pids=(1, 2)))

    def resize_failed(self, generation: int, job_id: str = "a") -> list[AnyCommand]:
        return self.say(ResizeFailed(**self._facts(job_id, generation), message="no"))

    def reported(self, generation: int, steps: int, job_id: str = "a", **more: Any) -> list[AnyCommand]:
        return self.say(StepsReported(**self._facts(job_id, generation), steps=steps, num_workers=1, **more))

    def lost(self, generation: int, *devices: str, job_id: str = "a") -> list[AnyCommand]:
        return self.say(WorkersLost(**self._facts(job_id, generation), devices=devices, message="-9"))

    def suspended(self, generation: int, job_id: str = "a", steps: int = 5) -> list[AnyCommand]:
        return self.say(GangSuspended(**self._facts(job_id, generation), steps=steps))

    def suspend_failed(
        self, generation: int, job_id: str = "a", message: str = "disk full"
    ) -> list[AnyCommand]:
        return self.say(SuspendFailed(**self._facts(job_id, generation), message=message))

    def gone(
        self,
        generation: int,
        outcome: Outcome = Outcome.LOST,
        job_id: str = "a",
        steps: int = 0,
        message: str = "",
    ) -> list[AnyCommand]:
        facts = self._facts(job_id, generation)
        return self.say(GangEnded(**facts, outcome=outcome, steps=steps, message=message))

    def _facts(self, job_id: str, generation: int) -> dict[str, Any]:
        return {"at_s": self.now_s, "job_id": job_id, "generation": generation}

    # ------------------------------------------------------------ shortcuts
    def run(self, job_id: str = "a", workers: int = 2, job: JobSpec | None = None) -> int:
        """A job that trains with so many workers; its generation."""
        self.want(**{job_id: workers})
        self.submit(job_id, job)
        launches = self.profiled(job_id)
        if not launches:  # a restart job needs no trial run
            launches = [command for command in self.core.under_way() if isinstance(command, LaunchGang)]
        assert isinstance(launches[-1], LaunchGang)
        generation = launches[-1].generation
        self.started(generation, job_id)
        return generation

    def make_room(self, job_id: str = "a") -> list[AnyCommand]:
        """A promise needs the whole cluster: what is said to the job that is in its way."""
        self.want(**{job_id: 0, "rival": self.core.cluster.num_devices})
        self.submit("rival")
        return self.profiled("rival")

    def job(self, job_id: str = "a") -> JobView:
        if job_id in self.ended:
            return self.ended[job_id]
        return next(view for view in self.core.views() if view.id == job_id)

    def phase(self, job_id: str = "a") -> Phase:
        return self.job(job_id).phase

    def num_held(self, job_id: str = "a") -> int:
        return len(self.job(job_id).devices)
