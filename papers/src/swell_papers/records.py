"""What a figure says of the platform whose records it was made of."""

from __future__ import annotations

from collections.abc import Sequence

from swell.model.view import ClusterView, JobView
from swell_papers.experiment import Context


def no_records() -> str:
    """Without records of a platform a figure has only what the paper prints."""
    return "no records of a platform were given (--state), so there are no figures of ours"


def recorded_jobs(context: Context) -> tuple[str, Sequence[JobView]]:
    """Return what a figure says of its records, and the jobs in them."""
    if context.records is None:
        return no_records(), ()
    jobs = context.records.jobs()
    return told_records(jobs, context.records.cluster()), jobs


def told_records(jobs: Sequence[JobView], cluster: ClusterView) -> str:
    """Its devices, its jobs, its policy and its version."""
    kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
    return (
        f"records of a platform of {cluster.num_devices} devices ({kinds}) with {len(jobs)} jobs, policy "
        f"{cluster.policy}, swell {cluster.version}"
    )
