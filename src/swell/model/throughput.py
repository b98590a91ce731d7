"""The throughput of one job by workers and batch, as people and programs are shown it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class EstimateSource(StrEnum):
    """What the time of a step was made from."""

    RUN = "run"  #: the job has run so, and the time of its steps is known well
    TRIAL = "trial"  #: its trial run made such steps
    PARTS = "parts"  #: the step of one worker and the all-reduce of so many workers, each measured alone
    INTERPOLATED = "interpolated"  #: between measured local batches, or measured numbers of workers
    EXTRAPOLATED = "extrapolated"  #: beyond the measured local batches, workers or bytes of gradients


class CheckedEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate, and what came out when the job first ran so."""

    source: EstimateSource  #: of the estimate
    step_s: float  #: measured
    error: float  #: measured time over the estimate, less 1
    margin: float  #: of promises from now on


class ThroughputPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One number of workers with one global batch."""

    workers: int
    nodes: int  #: that so many workers are placed on
    batch: int  #: samples of a step
    step_s: float
    samples_per_s: float
    source: EstimateSource
    margin: float  #: share by which a promise takes work to last longer
    is_best: bool = False  #: no batch of so many workers is faster


class JobThroughput(msgspec.Struct, frozen=True, kw_only=True):
    """The curve of a job: T(b, k), the samples a second at each batch and number of workers."""

    job_id: str
    kind: str  #: of device
    devices_per_worker: int
    most_workers: int  #: that the job may have on this platform
    grad_bytes: int
    points: tuple[ThroughputPoint, ...]  #: by workers, then by batch
    num_samples: int | None = None  #: that the whole job computes; None: its length is not known

    @property
    def best(self) -> list[ThroughputPoint]:
        """The best batch of each number of workers."""
        return [point for point in self.points if point.is_best]

    def whole_s(self, point: ThroughputPoint) -> float | None:
        """Time of all steps of the job, if it runs so from its beginning to its end.

        References: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020,
            section V-A: batches that take longer than a user can wait are left out of the range.
        """
        return None if self.num_samples is None else self.num_samples / point.samples_per_s
