"""The throughput curve of a job that the head knows, up to the most workers that it may have."""

from __future__ import annotations

import numpy as np

from swell.arrays import IntArray
from swell.core.record import JobRecord
from swell.core.state import HeadState, job_sizes
from swell.model.cluster import nodes_needed
from swell.model.job import JobSpec, Profile
from swell.model.options import Sizes
from swell.model.throughput import JobThroughput

#: Numbers of workers that are all shown; of more, those that trial runs measure.
FEW = 16


def throughput_of(state: HeadState, record: JobRecord) -> JobThroughput | None:
    """None: the job has no profile."""
    profile, spec = record.profile, record.spec
    if profile is None:
        return None
    sizes = shown_sizes(spec, record.least_workers, state.cluster.num_devices, state.domain.sizes)
    hosts = nodes_needed(state.cluster.widths, sizes * spec.devices_per_worker)
    return JobThroughput(
        job_id=record.id,
        kind=profile.device_kind,
        devices_per_worker=spec.devices_per_worker,
        most_workers=int(sizes[-1]) if sizes.size else 0,
        grad_bytes=profile.grad_bytes,
        points=state.belief.throughput(record.id, sizes, np.maximum(hosts, 1)),
        num_samples=num_samples_of(spec, profile),
        divided=profile.divided,
    )


def num_samples_of(spec: JobSpec, profile: Profile) -> int | None:
    """Samples of the whole job, at most; None: the script ends by itself."""
    num_steps = spec.end.total_steps(spec.global_batch, profile.samples_per_epoch)
    return None if num_steps is None else num_steps * spec.global_batch


def shown_sizes(spec: JobSpec, least: int, num_devices: int, kind: Sizes) -> IntArray:
    """Numbers of workers up to k_max: what the devices and the job allow, whichever is less."""
    every = job_sizes(spec, num_devices, kind, least=least)
    powers = every & (every - 1) == 0
    return every[(every <= FEW) | powers | (every == every[-1])] if every.size else every
