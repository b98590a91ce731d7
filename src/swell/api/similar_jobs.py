"""What trial runs have measured of jobs like one that has had none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from swell.core.record import JobRecord
from swell.core.state import job_sizes
from swell.executors.controller.profile_cache import ProfileCache
from swell.model.cluster import Cluster
from swell.model.command import ProfileJob
from swell.model.job import JobSpec, Profile
from swell.model.view import JobView


class SimilarJobs:
    """Jobs are alike that run the same script with the same global batch on workers of the same size.

    Args:
        cache: of the platform's trial runs.
        records: jobs that the head knows.
        ended: jobs that it has forgotten.
    """

    def __init__(
        self, cache: ProfileCache, cluster: Cluster, records: Iterable[JobRecord], ended: Sequence[JobView]
    ) -> None:
        self._cache = cache
        self._cluster = cluster
        self._records = sorted(records, key=lambda record: record.submitted_s, reverse=True)
        self._ended = sorted(ended, key=lambda view: view.submitted_s, reverse=True)

    def profile(self, spec: JobSpec) -> Profile | None:
        """Its own if it was measured before; else that of the newest job like it; None if there is none."""
        ended = (
            msgspec.structs.replace(
                spec,
                args=view.args,
                min_workers=view.min_workers,
                max_workers=view.max_workers,
                code=view.code,
            )
            for view in self._ended
            if is_like(view, spec)
        )
        found = chain(
            [self._kept(spec)],
            (record.profile for record in self._records if is_like(record.spec, spec)),
            map(self._kept, ended),
        )
        return next((profile for profile in found if profile is not None), None)

    def _kept(self, spec: JobSpec) -> Profile | None:
        if not self._cluster.nodes:
            return None
        sizes = tuple(job_sizes(spec, self._cluster.num_devices).tolist())
        kind = self._cluster.nodes[0].kind
        return self._cache.profile(ProfileJob(job_id="", spec=spec, sizes=sizes, device_kind=kind))


def is_like(one: JobSpec | JobView, other: JobSpec) -> bool:
    """Whether trial runs measure the same batches of the same script.

    Arguments may differ: they mostly say for how long, and how, a model is trained.
    """
    names = ("entry", "global_batch", "min_batch", "max_batch", "batch_per_worker", "devices_per_worker")
    return all(getattr(one, name) == getattr(other, name) for name in names)
