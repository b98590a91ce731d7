"""The speed of a job as its owner states it, in the place of what its trial run measured."""

from __future__ import annotations

import msgspec

from swell.model.job import JobSpec, Profile


def with_given_speed(spec: JobSpec, profile: Profile) -> Profile:
    """The profile, with steps that are as fast at the stated sizes as the owner says; between them the curve
    of a profile, and beyond them its continuation.

    What a stated speed counts already is left out: passes, time between epochs and between hosts.
    """
    if not spec.speed:
        return profile
    step_s = {size: spec.global_batch / rate_per_s for size, rate_per_s in spec.speed.items()}
    compute_s: dict[int, float] = {}
    for size, time_s in step_s.items():
        local_batch = -(-spec.global_batch // size)
        compute_s[local_batch] = min(time_s, compute_s.get(local_batch, time_s))
    return msgspec.structs.replace(
        profile,
        compute_s=compute_s,
        allreduce_s={
            size: time_s - compute_s[-(-spec.global_batch // size)] for size, time_s in step_s.items()
        },
        max_local_batch=None,
        between=None,
        crossing_s={},
        allreduce_sizes=None,
        group_step_s={},
    )
