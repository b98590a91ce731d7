"""Which jobs a platform does not take, and which deadlines it is not asked for."""

from __future__ import annotations

from collections.abc import Collection

from swell.core.state import job_sizes
from swell.model.deadline_state import is_measured
from swell.model.errors import InvalidJob, TooManyOpenJobs, WrongPhase
from swell.model.job import Elasticity, JobClass, JobSpec, Phase
from swell.model.options import Sizes
from swell.model.view import JobView


def check_room(tenant: str, open_jobs: Collection[str], max_open: int) -> None:
    """Raises TooManyOpenJobs if a tenant with these jobs cannot have another one."""
    if len(open_jobs) >= max_open:
        raise TooManyOpenJobs(
            f"tenant {tenant!r} may have {max_open} jobs that have not ended, and has {len(open_jobs)}: wait "
            "for one to end, cancel one (`swell cancel`), or ask the operator for a higher limit "
            f"(`swell admin tenants limit {tenant} --open-jobs N`)"
        )


def check_job(spec: JobSpec, num_devices: int, sizes: Sizes) -> None:
    """Raises InvalidJob if the job could not run on so many devices were they all its own, or be promised."""
    needed = spec.min_workers * spec.devices_per_worker
    if needed > num_devices:
        raise InvalidJob(
            f"job {spec.name!r} asks for at least {needed} devices but the cluster has {num_devices}; "
            "lower its smallest number of workers or add nodes"
        )
    if job_sizes(spec, num_devices, sizes).size == 0:
        raise InvalidJob(
            f"job {spec.name!r} asks for {spec.min_workers} workers or more; the policy gives {sizes.value} "
            f"and none so large fits on {num_devices} devices with a sample of the batch for each worker: "
            "lower its smallest number of workers or add nodes"
        )
    if spec.job_class is JobClass.STRICT:
        check_promisable(spec.name, spec.elasticity)


def check_promisable(name: str, elasticity: Elasticity) -> None:
    """Raises InvalidJob for a job to which nothing can be promised."""
    if elasticity is Elasticity.RESTART:
        raise InvalidJob(
            f"job {name!r} cannot be strict: a promise needs progress reports, and a script that "
            "does not use swell.train makes none; use class soft, or swell.train.elastic in the script"
        )


def check_findings(view: JobView, names: Collection[str]) -> None:
    """Raises InvalidJob for a name that no finding of its trial run has. Before that run, any is accepted."""
    known = {found.name for found in view.findings}
    unknown = [name for name in names if name not in known]
    if unknown and is_measured(view):
        found = f"it found {', '.join(sorted(known))}" if known else "it found nothing"
        raise InvalidJob(f"the trial run of job {view.id!r} has not found {unknown[0]!r}; {found}")


def has_ended_error(view: JobView, consequence: str, option: str = "") -> WrongPhase:
    """What a job cannot do that has ended, or is about to, and what its owner can do instead.

    Args:
        option: of the command that submits it again.
    """
    state = f"is {view.phase}" if view.phase.is_end else "is being cancelled"
    remedy = f"submit it again with `swell retry {view.id}{option}`"
    if view.phase is Phase.SUCCEEDED:
        state, remedy = "has succeeded", "submit it with `swell submit` to run it again"
    elif not view.phase.is_end:
        remedy = f"wait for its end (`swell wait {view.id}`), then {remedy}"
    return WrongPhase(f"job {view.id!r} {state}, and {consequence}; {remedy}")
