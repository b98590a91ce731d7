"""What would become of a platform's jobs if its policy, its nodes or its jobs were others from now on.

The head that is asked is a copy: it goes on in a simulated world from the state that the live one is in.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.api.client import connect
from swell.api.errors import NoPlatform
from swell.api.job_file import load
from swell.api.similar_jobs import Likenesses
from swell.assemble import DEFAULT_POLICY, left_behind, new_core, settings_of
from swell.core.job_progress import JobProgress
from swell.core.record import JobRecord
from swell.core.state import Saved, read_saved
from swell.executors.controller.profile_cache import ProfileCache
from swell.live.clock import HeadClock
from swell.live.platform import check_job
from swell.model.cluster import Cluster, Node
from swell.model.errors import InvalidInput, InvalidJob
from swell.model.job import Elasticity, JobClass
from swell.model.options import Sizes
from swell.model.view import JobView
from swell.policies.registry import UnknownPolicy, new_policy
from swell.settings import Settings
from swell.sim.job import SimJob
from swell.sim.simulate import MAX_DEVICES
from swell.sim.standing import Standing, sim_job, undisturbed
from swell.sim.what_if import Fate, PlatformChange, go_on
from swell.store.folder import StateFolder
from swell.throughput.belief import FittedBelief


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """One job, as things are and as they would be."""

    id: str
    name: str
    job_class: JobClass
    deadline_s: float | None
    is_hypothetical: bool
    now: Fate | None  #: None of a hypothetical job
    then: Fate


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Times are seconds since 1970."""

    at_s: float
    is_up: bool  #: else as if the platform were started now
    policy_now: str
    policy_then: str
    num_devices_now: int
    num_devices_then: int
    jobs: tuple[Forecast, ...]  #: in order of submission, hypothetical ones last
    left_out: tuple[str, ...]  #: ids of open jobs of which nothing is known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be different."""

    policy: str | None = None
    add_nodes: int = 0
    submit: Path | None = None  #: a job file


def what_if(state: str | os.PathLike[str] | None, wish: Wish) -> WhatIf:
    """Ask the platform of a state folder, whether it is up or not; nothing of it is changed.

    Raises:
        NoPlatform: it is not up and never was.
        InvalidInput: there is no such policy, or no node to add others like.
        InvalidJob: the job file holds none that could be submitted, or one that has not been measured.
    """
    folder = StateFolder(state)
    _check_policy(wish.policy)
    scene = _scene(folder)
    return _answer(scene, wish)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A platform as it stands."""

    now_s: float  #: head time
    calendar_offset_s: float  #: calendar less head time
    is_up: bool
    saved: Saved
    likenesses: Likenesses
    settings: Settings


def _check_policy(policy: str | None) -> None:
    if policy is not None:
        try:
            new_policy(policy)
        except UnknownPolicy as error:
            raise InvalidInput(str(error)) from error


def _scene(folder: StateFolder) -> Scene:
    is_up, state, views = _stand(folder)
    saved = read_saved(state)
    ended = [view for view in views if view.phase.is_end]
    clock = HeadClock()
    clock.go_on(saved.calendar, saved.now_s)
    return Scene(
        now_s=clock.now_s(),
        calendar_offset_s=saved.calendar.offset_s,
        is_up=is_up,
        saved=saved,
        likenesses=Likenesses(ProfileCache(folder.path), saved.cluster, saved.records, ended),
        settings=settings_of(folder.path),
    )


def _stand(folder: StateFolder) -> tuple[bool, bytes, Sequence[JobView]]:
    try:
        with connect(folder.path) as client:
            return True, client.head_state(), client.jobs()
    except NoPlatform:
        if not folder.journal.exists():
            raise
        return False, *left_behind(folder.path)


def _answer(scene: Scene, wish: Wish) -> WhatIf:
    nodes = _more_nodes(scene.saved.cluster, wish.add_nodes)
    num_devices = scene.saved.cluster.num_devices
    num_then = num_devices + sum(len(node.devices) for node in nodes)
    belief = FittedBelief()
    belief.restore(scene.saved.belief)
    policy = wish.policy or scene.saved.policy or DEFAULT_POLICY
    drafts = _drafts(scene, wish.submit, num_then, new_policy(policy).domain.sizes)
    new_jobs = tuple(_known(draft, belief, scene.likenesses, num_then) for draft in drafts)
    standing, left_out = _standing(scene, belief, num_then)
    as_is = go_on(new_core(settings=scene.settings), standing, PlatformChange())
    change = PlatformChange(policy=wish.policy or "", nodes=nodes, jobs=new_jobs)
    as_wished = go_on(new_core(settings=scene.settings), standing, change)
    offset_s = scene.calendar_offset_s
    everybody = sorted(standing.saved.records, key=lambda record: (record.submitted_s, record.id)) + drafts
    policy = scene.saved.policy or DEFAULT_POLICY
    return WhatIf(
        at_s=scene.now_s + offset_s,
        is_up=scene.is_up,
        policy_now=policy,
        policy_then=wish.policy or policy,
        num_devices_now=num_devices,
        num_devices_then=num_then,
        jobs=tuple(
            _forecast(record, as_is.get(record.id), as_wished[record.id], offset_s) for record in everybody
        ),
        left_out=left_out,
    )


def _more_nodes(cluster: Cluster, num: int) -> tuple[Node, ...]:
    """Nodes like the last one there is."""
    if num == 0:
        return ()
    if not cluster.nodes:
        raise InvalidInput("--add-nodes: the platform has no node to copy; start it with `swell up`")
    like, taken = cluster.nodes[-1], {node.name for node in cluster.nodes}
    if (num_then := cluster.num_devices + num * len(like.devices)) > MAX_DEVICES:
        raise InvalidInput(
            f"--add-nodes {num} would make {num_then:,} devices; at most {MAX_DEVICES:,} can be simulated"
        )
    names = [name for i in range(1, num + len(taken) + 1) if (name := f"added{i}") not in taken][:num]
    return tuple(
        msgspec.structs.replace(
            like, name=name, devices=tuple(f"{name}/{place}" for place in range(len(like.devices)))
        )
        for name in names
    )


def _drafts(scene: Scene, file: Path | None, num_devices: int, sizes: Sizes) -> list[JobRecord]:
    """The jobs of a file, as if they were submitted now."""
    if file is None:
        return []
    specs = [job.to_spec(scene.now_s + scene.calendar_offset_s) for job in load(file)]
    for spec in specs:
        check_job(spec, num_devices, sizes)
    taken, drafts = {record.id for record in scene.saved.records}, []
    for spec in specs:
        tries = (f"{spec.name}-new{place or ''}" for place in range(len(taken) + 1))
        job_id = next(name for name in tries if name not in taken)
        taken.add(job_id)
        drafts.append(
            JobRecord(
                id=job_id, spec=spec, submitted_s=scene.now_s, progress=JobProgress(as_of_s=scene.now_s)
            )
        )
    return drafts


def _standing(scene: Scene, belief: FittedBelief, num_devices: int) -> tuple[Standing, tuple[str, ...]]:
    """The platform without jobs of which nothing is known; and those jobs."""
    jobs: dict[str, SimJob] = {}
    left_out = []
    for record in scene.saved.records:
        try:
            jobs[record.id] = _known(record, belief, scene.likenesses, num_devices)
        except InvalidJob:
            left_out.append(record.id)
    records = [record for record in scene.saved.records if record.id in jobs]
    saved = msgspec.structs.replace(scene.saved, records=records)
    standing = Standing(now_s=scene.now_s, saved=saved, jobs=jobs)
    return undisturbed(standing), tuple(left_out)


def _known(record: JobRecord, belief: FittedBelief, likenesses: Likenesses, num_devices: int) -> SimJob:
    """The job with what is believed of it, or else of jobs like it. Raises InvalidJob."""
    known = msgspec.structs.replace(record, progress=copy.copy(record.progress))
    if record.progress.total_steps is None:
        is_live = record.spec.elasticity is Elasticity.LIVE
        profile = likenesses.profile(record.spec) if is_live else None
        if is_live and profile is None:
            raise InvalidJob(_unmeasured(record))
        known.learn_length(profile)
        if profile is not None:
            belief.learn_profile(record.id, record.spec, profile)
    try:
        return sim_job(known, belief, num_devices)
    except ValueError as error:
        raise InvalidJob(
            f"{error}: its end is given in epochs, and its script does not say how long an epoch is"
        ) from None


def _unmeasured(record: JobRecord) -> str:
    return (
        f"job {record.spec.name!r}: the speed of {record.spec.entry} with a global batch of "
        f"{record.spec.global_batch} was never measured here; submit it once for a few steps "
        "(`swell submit ... --steps 8`)"
    )


def _forecast(record: JobRecord, now: Fate | None, then: Fate, calendar_offset_s: float) -> Forecast:
    return Forecast(
        id=record.id,
        name=record.spec.name,
        job_class=record.job_class,
        deadline_s=record.agreed_deadline_s,
        is_hypothetical=now is None,
        now=None if now is None else _by_calendar(now, calendar_offset_s),
        then=_by_calendar(then, calendar_offset_s),
    )


def _by_calendar(fate: Fate, offset_s: float) -> Fate:
    """The head that went on, and with it its fate, is in head time."""
    finish_s, offer_s = fate.finish_s, fate.counter_offer_s
    return msgspec.structs.replace(
        fate,
        finish_s=None if finish_s is None else finish_s + offset_s,
        counter_offer_s=None if offer_s is None else offer_s + offset_s,
    )
