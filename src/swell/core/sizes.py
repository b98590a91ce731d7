"""Numbers of workers that a job may have, and those of which its throughput is shown."""

from __future__ import annotations

from functools import lru_cache

from swell.arrays import IntArray
from swell.model.job import Elasticity, JobSpec, Profile
from swell.model.options import Sizes

#: Numbers of workers that are all shown; of more, those that trial runs measure.
FEW = 16


def job_sizes(
    spec: JobSpec, num_devices: int, kind: Sizes = Sizes.POWERS_OF_TWO, most_batch: int | None = None
) -> IntArray:
    """Worker counts that a job may have on so many devices, ascending; empty if there is none. Read-only.

    Args:
        most_batch: samples of a step at most, where these do not grow with the workers; None: as many as
            the job may have.
    """
    most = num_devices // spec.devices_per_worker
    if spec.max_workers is not None:
        most = min(most, spec.max_workers)
    if spec.elasticity is Elasticity.LIVE and spec.batch_per_worker is None:
        # a worker without samples would be of no use
        most = min(most, most_batch or spec.max_batch or spec.global_batch or most)
    return _sizes_within(spec.min_workers, most, kind, spec.global_batch * spec.cuts_batch)


@lru_cache(maxsize=1024)
def _sizes_within(least: int, most: int, kind: Sizes, batch: int) -> IntArray:
    """`batch`: that each size must divide; 0: none."""
    sizes = kind.up_to(most)
    within: IntArray = sizes[(sizes >= least) & (sizes <= most) & (batch % sizes == 0)]
    within.flags.writeable = False
    return within


def num_samples_of(spec: JobSpec, profile: Profile) -> int | None:
    """Samples of the whole job, at most; None: the script ends by itself."""
    num_steps = spec.end.total_steps(spec.global_batch, profile.samples_per_epoch)
    return None if num_steps is None else num_steps * spec.global_batch


def shown_sizes(spec: JobSpec, num_devices: int, kind: Sizes) -> IntArray:
    """Numbers of workers up to k_max: what the devices and the job allow, whichever is less."""
    every = job_sizes(spec, num_devices, kind)
    powers = every & (every - 1) == 0
    return every[(every <= FEW) | powers | (every == every[-1])] if every.size else every
