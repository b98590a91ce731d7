"""Which jobs a platform takes and as what, and which deadlines and changes it is not asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from swell.core.sizes import job_sizes
from swell.model.booking import Booking
from swell.model.deadline_state import is_measured
from swell.model.errors import InvalidJob, TooManyOpenJobs, WrongPhase
from swell.model.job import JobClass, JobSpec, Phase
from swell.model.names import ANY
from swell.model.options import Sizes
from swell.model.quantities import span, told_devices, told_jobs
from swell.model.view import JobView


def check_room(tenant: str, open_jobs: Collection[str], max_open: int) -> None:
    """Raises TooManyOpenJobs if a tenant with these jobs cannot have another one."""
    if len(open_jobs) >= max_open:
        raise TooManyOpenJobs(
            f"tenant {tenant!r} may have {told_jobs(max_open)} open, and has {len(open_jobs)}: wait for one "
            "to end, cancel one (`swell cancel`), or ask the operator for a higher limit "
            f"(`swell admin tenants limit {tenant} --open-jobs N`)"
        )


def check_job(spec: JobSpec, num_devices: int, sizes: Sizes) -> None:
    """Raises InvalidJob if the job could not run on so many devices were they all its own, or be promised."""
    needed = spec.min_workers * spec.devices_per_worker
    if needed > num_devices:
        raise InvalidJob(
            f"job {spec.name!r} asks for at least {needed} devices but the cluster has {num_devices}; "
            "lower its smallest number of workers, or the devices of each, or add nodes"
        )
    if job_sizes(spec, num_devices, sizes).size == 0:
        raise InvalidJob(
            f"job {spec.name!r} asks for {spec.min_workers} workers or more; the policy gives {sizes.value} "
            f"and none so large fits on {num_devices} devices with a sample of the batch for each worker: "
            "lower its smallest number of workers or add nodes"
        )
    if spec.job_class is JobClass.STRICT:
        check_promisable(spec.name, spec.counts_steps)


def check_fixed(spec: JobSpec, nodes: Collection[int] | None, longest_s: float) -> None:
    """Raises InvalidJob if a fixed job could not run on these nodes were they all its own, or for too long.

    Args:
        nodes: devices of each; None: others may come.
        longest_s: time that a job may ask for; 0: any.
    """
    each, parts, time_s = spec.devices_per_worker, spec.min_workers, spec.fixed.time_s if spec.fixed else 0.0
    if nodes is not None and sum(num // each for num in nodes) < parts:
        on_each = "" if parts == 1 else f" on each of {parts} nodes"
        raise InvalidJob(
            f"job {spec.name!r} asks for {told_devices(each)}{on_each}, and the platform has {sum(nodes)}, "
            f"{max(nodes, default=0)} on its largest node; lower --devices, or divide them with --nodes"
        )
    if longest_s and time_s > longest_s:
        raise InvalidJob(
            f"job {spec.name!r} asks for {span(time_s)}, and no job of this platform may ask for more than "
            f"{span(longest_s)} (--set longest_time_s); lower --time"
        )


def check_booked(spec: JobSpec, booking: Booking | None, user: str, now_s: float) -> None:
    """Raises InvalidJob if a job cannot run in the booking that it names.

    Args:
        now_s: calendar time.
    """
    needed = spec.min_workers * spec.devices_per_worker
    time_s = spec.fixed.time_s + spec.fixed.grace_s if spec.fixed else 0.0
    lengths_s = [end_s - max(begin_s, now_s) for begin_s, end_s in booking.times_s] if booking else []
    if booking is None or booking.node or booking.user != user:
        why = "is no booking" if booking is None else f"is a booking of {booking}, not yours"
        why += "; `swell book --list` lists all"
    elif needed > booking.num_devices:
        why = f"has {told_devices(booking.num_devices)}, and job {spec.name!r} needs {needed}; book more"
    elif max(lengths_s) <= time_s:
        left = f"has no time of {span(time_s)} left, which --time and --grace may take; lower these"
        why = left if time_s else "is over; name another one"
    else:
        return
    raise InvalidJob(f"--booking: {spec.booking!r} {why}")


def check_session(spec: JobSpec, own: Mapping[str, JobSpec | JobView], most_devices: int) -> None:
    """Raises InvalidJob if a user with these open jobs, by their ids, cannot have another session."""
    sessions = {job_id: one for job_id, one in own.items() if one.fixed is not None and one.fixed.is_session}
    for job_id, one in sessions.items():
        if one.name == spec.name:
            raise InvalidJob(
                f"session {spec.name!r} is open ({job_id}): attach to it with `swell attach {job_id}`, or "
                "choose another name"
            )
    held = sum(one.min_workers * one.devices_per_worker for one in sessions.values())
    if held + spec.min_workers * spec.devices_per_worker > most_devices:
        raise InvalidJob(
            f"the sessions of a user may have {told_devices(most_devices)} together, and yours have {held} "
            "already: ask for fewer, end one (`swell cancel`), or ask the operator for a higher limit "
            "(`swell up --set session_devices=N`)"
        )


def check_promisable(name: str, counts_steps: bool) -> None:
    """Raises InvalidJob for a job to which nothing can be promised."""
    if not counts_steps:
        raise InvalidJob(
            f"job {name!r} cannot be strict: a promise needs to know how many steps it has, and the script "
            "of a restart job does not say; submit it with --steps, or use class soft"
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


# ---------------------------------------------------------------- kinds of device
def with_named_kinds(spec: JobSpec, devices: Mapping[str, int]) -> JobSpec:
    """The job as the head is to get it: with a kind, unless it names several, or the platform has only one.

    Of several kinds the head chooses one.

    Args:
        devices: of nodes that take work, of each kind that the platform has, or has had.

    Raises:
        InvalidJob: it names a kind that the platform never had, or none, and there is a choice.
    """
    if spec.kind == ANY and ANY not in devices and devices:
        return msgspec.structs.replace(spec, kind="", kinds=(ANY,))
    if spec.kinds == (ANY,):
        return spec
    if (whole := ",".join(spec.kinds)) and whole in devices:
        return msgspec.structs.replace(spec, kind=whole)  # the name of a kind may have a comma
    for kind in spec.kinds:
        _check_kind(spec.name, kind, devices)
    if spec.kinds:
        return spec
    if spec.kind:
        _check_kind(spec.name, spec.kind, devices)
        return spec
    if len(devices) < 2:
        return spec
    there = [kind for kind, num in devices.items() if num]
    if len(there) == 1:
        return msgspec.structs.replace(spec, kind=there[0])
    raise InvalidJob(
        f"job {spec.name!r} names no kind of device, and the platform has several: "
        f"{_listed(devices)}; name one with --kind, or `kind:` in the job file, several as a list, or `{ANY}`"
    )


def _check_kind(name: str, kind: str, devices: Mapping[str, int]) -> None:
    if kind not in devices:
        raise InvalidJob(f"job {name!r} asks for devices of kind {kind!r}; {_available(devices)}")


def _available(devices: Mapping[str, int]) -> str:
    if not devices:
        return "no node has joined this platform yet: submit it once one has, or without a kind"
    return f"the platform has {_listed(devices)}: name one of these, or let a node of that kind join first"


def _listed(devices: Mapping[str, int]) -> str:
    told = (f"{kind} ({told_devices(num)})" for kind, num in sorted(devices.items()))
    return ", ".join(told)


# ---------------------------------------------------------------- jobs that follow others
def with_predecessors(spec: JobSpec, candidates: Callable[[str], list[JobView]]) -> JobSpec:
    """The request with ids in place of the names of the jobs that it follows.

    Args:
        candidates: jobs that a name may mean; see `JobSource`.

    Raises InvalidJob: there is no such job, or it has ended without success.
    """
    if not spec.after:
        return spec
    found = [_predecessor(word, candidates(word)) for word in spec.after]
    return msgspec.structs.replace(spec, after=tuple(dict.fromkeys(view.id for view in found)))


def _predecessor(word: str, candidates: list[JobView]) -> JobView:
    if len(candidates) != 1:
        known = ", ".join(view.id for view in candidates)
        why = (
            f"could be any of {known}; give more of the id" if known else "is no job; `swell jobs` lists all"
        )
        raise InvalidJob(f"after: {word!r} {why}")
    (view,) = candidates
    if view.phase.is_end and view.phase is not Phase.SUCCEEDED:
        raise InvalidJob(
            f"after: job {view.id!r} is {view.phase}, so a job that follows it would never start; leave it "
            "out, or name another one"
        )
    return view
