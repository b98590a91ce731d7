"""A policy that is asked again and again, and keeps its memory, as the head has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.policies.snapshots import Job, snapshot

from swell.core.last_plan import PolicyState
from swell.policies.policy import Policy


class Asked:
    """Each job holds what it was given last."""

    def __init__(self, policy: Policy, num_devices: int, sizes: Sequence[int] = (1, 2, 4, 8, 16)) -> None:
        self.policy, self.num_devices, self.sizes = policy, num_devices, sizes
        self.held: dict[str, int] = {}
        self._state = PolicyState()

    def at(self, now_s: float, jobs: Sequence[Job]) -> list[int]:
        """Workers of each; `submitted` of a job is on the clock of `now_s`."""
        self._state.begin(self.policy.name, now_s)
        there = [replace(job, held=self.held.get(job.id, 0), submitted=job.submitted - now_s) for job in jobs]
        view = snapshot(there, self.num_devices, self.sizes, now_s=now_s)
        answer = self.policy.decide(replace(view, is_due=self._state.is_due, memory=self._state.memory))
        self._state.end(answer.memory, self.policy.period_s)
        workers: list[int] = answer.workers.tolist()
        self.held = {job.id: size for job, size in zip(jobs, workers, strict=True)}
        return workers
