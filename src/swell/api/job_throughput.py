"""The throughput curve of a job: what the head knows of it, or what its trial run has left behind."""

from __future__ import annotations

import numpy as np

from swell.core.throughput import num_samples_of, shown_sizes
from swell.executors.controller.profile_cache import ProfileCache
from swell.live.platform import Platform
from swell.model.cluster import Cluster, nodes_needed
from swell.model.command import ProfileJob
from swell.model.errors import UnknownJob, WrongPhase
from swell.model.job import Elasticity, JobSpec, Profile
from swell.model.node import Node
from swell.model.options import Sizes
from swell.model.throughput import JobThroughput
from swell.model.view import JobView
from swell.throughput.belief import FittedBelief


def throughput_of(platform: Platform, job_id: str) -> JobThroughput:
    """Raises UnknownJob; WrongPhase: there is no curve of the job."""
    view = platform.job(job_id)
    if view.elasticity is Elasticity.RESTART:
        raise WrongPhase(
            f"job {view.id!r} has no curve: with elasticity 'restart' it has no trial run, and is planned by "
            "its estimate"
        )
    found = platform.throughput(view.id)
    if found is None and view.phase.is_end:
        found = _of_ended(platform, view)
    if found is not None:
        return found
    why = "it ended before its trial run was over, or what that has measured is not kept any more"
    if not view.phase.is_end:
        why = f"its trial run is not over; `swell explain {view.id}` tells how far it is"
    raise WrongPhase(f"job {view.id!r} has no curve: {why}")


def _of_ended(platform: Platform, view: JobView) -> JobThroughput | None:
    """Return the curve that its trial run measured; what its run has taught is forgotten."""
    try:
        spec = platform.submission(view.id).spec
    except UnknownJob:
        return None
    nodes = tuple(
        Node(name=node.name, rack=node.rack, kind=node.kind, devices=tuple(node.devices))
        for node in platform.cluster().nodes
        if node.kind == view.kind
    )
    cache = ProfileCache(platform.log_dir(view.id).parent.parent)
    asked = ProfileJob(job_id=view.id, spec=spec, sizes=(view.least_workers,), device_kind=view.kind)
    profile = cache.profile(asked)
    return None if profile is None else throughput_by_profile(view.id, spec, profile, Cluster(nodes))


def throughput_by_profile(job_id: str, spec: JobSpec, profile: Profile, cluster: Cluster) -> JobThroughput:
    """The curve of a job that has not run, on such a cluster."""
    belief = FittedBelief()
    belief.learn_profile(job_id, spec, profile)
    sizes = shown_sizes(spec, profile.least_workers, cluster.num_devices, Sizes.POWERS_OF_TWO)
    hosts = np.maximum(nodes_needed(cluster.widths, sizes * spec.devices_per_worker), 1)
    return JobThroughput(
        job_id=job_id,
        kind=profile.device_kind,
        devices_per_worker=spec.devices_per_worker,
        most_workers=int(sizes[-1]) if sizes.size else 0,
        grad_bytes=profile.grad_bytes,
        points=belief.throughput(job_id, sizes, hosts),
        num_samples=num_samples_of(spec, profile),
        divided=profile.divided,
    )
