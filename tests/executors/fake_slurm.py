"""Slurm as a platform sees it, in memory: a queue, nodes, and jobs of others that take them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, ClusterRead, SliceJob
from swell.executors.slurm.slurm_client import batch_script, state_of


@dataclass
class FakeSlurm:
    """See `ClusterPort`. `num_asked` counts the queries, whatever they find."""

    nodes: list[str] = field(default_factory=list)
    limit_s: float | None = 3600.0
    states: dict[str, str] = field(default_factory=dict)  #: of nodes that are not free or ours
    jobs: dict[int, SliceJob] = field(default_factory=dict)
    scripts: dict[int, str] = field(default_factory=dict)
    asked_nodes: dict[int, str] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)  #: when jobs end that have started, by its clock
    now_s: float = 0.0  #: by its clock
    grace_s: float = 30.0
    refusal: str = ""
    silence: str = ""
    num_asked: int = 0
    num_submitted: int = 0

    # ------------------------------------------------------------ what happens in it
    def start(self, at_s: float = 0.0) -> None:
        """Give nodes to jobs that wait, the oldest first. `at_s`: by its clock."""
        for job in list(self.jobs.values()):
            wanted = self.asked_nodes.get(job.id, "")
            free = [name for name in self.nodes if self.state(name) == "idle" and wanted in ("", name)]
            if job.word == "PENDING" and free:
                self.change(job.id, state="RUNNING", node=free[0])
                if self.limit_s is not None:
                    self.ends[job.id] = at_s + self.limit_s

    def change(self, job: int, **about: object) -> None:
        """`state`: in Slurm's word."""
        if "state" in about:
            word = str(about.pop("state"))
            about |= {"state": state_of(word), "word": word}
        self.jobs[job] = replace(self.jobs[job], **about)

    def end(self, job: int, state: str = "CANCELLED", reason: str = "") -> None:
        self.change(job, state=state, reason=reason)

    def state(self, node: str) -> str:
        if node in self.states:
            return self.states[node]
        is_held = any(job.node == node and job.word == "RUNNING" for job in self.jobs.values())
        return "allocated" if is_held else "idle"

    def in_state(self, state: str) -> list[int]:
        return [job.id for job in self.jobs.values() if job.word == state]

    # ------------------------------------------------------------ ClusterPort
    async def read(self) -> ClusterRead:
        self._answer()
        return self.seen()

    def seen(self) -> ClusterRead:
        idle = tuple(name for name in self.nodes if self.state(name) == "idle")
        left_s = {job: end_s - self.now_s for job, end_s in self.ends.items()}
        jobs = tuple(replace(job, left_s=left_s.get(job.id)) for job in self.jobs.values())
        return ClusterRead(jobs=jobs, num_fit=len(self.nodes), idle=idle, grace_s=self.grace_s)

    async def submit(self, order: SliceOrder, node: str = "") -> int:
        self._answer()
        if self.refusal:
            raise ClusterError(self.refusal)
        return self.add(batch_script(order), node)

    def add(self, script: str = "", node: str = "") -> int:
        self.num_submitted += 1
        job = self.num_submitted
        state = state_of("PENDING")
        self.jobs[job] = SliceJob(
            id=job, state=state, word="PENDING", limit_s=self.limit_s, reason="Priority"
        )
        self.scripts[job], self.asked_nodes[job] = script, node
        return job

    async def cancel(self, jobs: Collection[int]) -> None:
        self._answer()
        for job in jobs:
            self.end(job)

    async def close(self) -> None: ...

    def _answer(self) -> None:
        self.num_asked += 1
        if self.silence:
            raise ClusterError(self.silence)
