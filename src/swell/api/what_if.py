"""What would become of a platform's jobs if its policy, its nodes or its jobs were others from now on.

The head that is asked is a copy: it goes on in a simulated world from the state that the live one is in.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import msgspec

from swell.api.client import connect_as_owner
from swell.api.errors import NoPlatform
from swell.api.job_file import load
from swell.api.script_source import MAX_SCRIPT_BYTES
from swell.api.user_list import UserList, refuse_unkept
from swell.assemble import left_behind, settings_of
from swell.core.kinds import KindLoad, SavedKind, choose, named_kinds, read_platform, smallest_gang
from swell.core.platform_core import place_without_kind
from swell.core.progress import JobProgress
from swell.core.record import JobRecord
from swell.core.sizes import job_sizes
from swell.core.state import Saved
from swell.executors.controller.profile_store import ProfileStore
from swell.live.clock import HeadClock
from swell.live.job_checks import check_fixed, check_job, with_named_kinds
from swell.model.cluster import Cluster
from swell.model.code import decode_tree, tree_path
from swell.model.command import ProfileJob
from swell.model.errors import InvalidInput, InvalidJob
from swell.model.job import Elasticity, JobClass, JobSpec, Phase, Profile
from swell.model.node import Node
from swell.model.options import Sizes
from swell.model.quantities import told_devices
from swell.model.quota import Quota
from swell.model.view import JobView
from swell.policies.registry import new_policy
from swell.scheduler import new_core
from swell.settings import DEFAULT_POLICY, Settings
from swell.sim.job import SimJob
from swell.sim.simulate import MAX_DEVICES
from swell.sim.what_if import JobForecast, PlatformChange, PlatformState, go_on, sim_job, undisturbed
from swell.store.folder import StateFolder
from swell.throughput.belief import FittedBelief
from swell.wire.untrusted_files import read_regular

#: Ended jobs, the newest, of which one may be like a job that was never measured.
MAX_ENDED = 1000


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """One job, as things are and as they would be."""

    id: str
    name: str
    job_class: JobClass
    deadline_s: float | None
    is_hypothetical: bool
    now: JobForecast | None  #: None of a hypothetical job
    then: JobForecast


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """An open job of which nothing can be foretold."""

    id: str
    why: str  #: what follows its name


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Times are seconds since 1970."""

    at_s: float
    is_up: bool  #: else as if the platform were started now
    policy_now: str
    policy_then: str
    num_devices_now: int
    num_devices_then: int
    jobs: tuple[Forecast, ...]  #: in order of submission, hypothetical ones last
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuery:
    """What is to be different."""

    policy: str | None = None
    add_nodes: int = 0
    kind: str = ""  #: of these nodes; empty: of the only kind that there is
    drain: tuple[str, ...] = ()  #: nodes that jobs are to leave
    submit: Path | None = None  #: a job file


def what_if(state: str | os.PathLike[str] | None, query: WhatIfQuery) -> WhatIf:
    """Ask the platform of a state folder, whether it is up or not; nothing of it is changed.

    Raises:
        NoPlatform: it is not up and never was.
        InvalidInput: there is no such policy, node or open job, or no node to add others like.
        InvalidJob: the job file holds none that could be submitted, or one that has not been measured.
    """
    folder = StateFolder(state)
    if query.policy is not None:
        new_policy(query.policy)
    platform = _platform_state(folder)
    return _answer(platform, query)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """The part of a platform that has one kind of device: the others make no difference to it."""

    kind: str
    saved: Saved
    similar_jobs: EqualJobs
    belief: FittedBelief

    def num_usable_devices(self, drained: Collection[str]) -> int:
        """Number of devices on nodes that take work, were the nodes `drained` left."""
        saved = self.saved
        left = {*saved.warned, *drained}
        return sum(len(node.devices) for node in saved.cluster.nodes if node.name not in left)

    def load(self, drained: Collection[str], num_devices: int) -> KindLoad:
        """Devices in use of so many, were the nodes `drained` left."""
        left = {*self.saved.warned, *drained}
        gone = {device for node in self.saved.cluster.nodes if node.name in left for device in node.devices}
        held = sum(len(set(record.gang.held) - gone) for record in self.saved.records)
        waiting = (one for one in self.saved.records if one.phase is Phase.QUEUED and not one.is_set_aside)
        return KindLoad(
            num_devices, max(0, num_devices - held), sum(smallest_gang(one.spec) for one in waiting)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfState:
    """A platform as it stands."""

    now_s: float  #: head time
    calendar_offset_s: float  #: calendar less head time
    is_up: bool
    kinds: Sequence[KindState]  #: one at least
    settings: Settings

    @property
    def policy(self) -> str:
        return self.kinds[0].saved.policy or DEFAULT_POLICY

    @property
    def num_devices(self) -> int:
        return sum(kind.saved.cluster.num_devices for kind in self.kinds)

    @property
    def nodes(self) -> Sequence[Node]:
        return [node for kind in self.kinds for node in kind.saved.cluster.nodes]

    @property
    def records(self) -> Sequence[JobRecord]:
        """Job records of all kinds of device, one kind after the other."""
        return [record for kind in self.kinds for record in kind.saved.records]


def _platform_state(folder: StateFolder) -> WhatIfState:
    is_up, state, views = _last_state(folder)
    ended = [view for view in views if view.phase.is_end]
    quotas = None if is_up else dict(UserList(folder.path).quotas())  # as a platform hears when it starts
    kinds = [_kind_state(one, folder.path, ended, quotas) for one in read_platform(state).kinds]
    clock, calendar = HeadClock(), kinds[0].saved.calendar
    clock.continue_from(calendar, max(kind.saved.now_s for kind in kinds))
    return WhatIfState(
        now_s=clock.now_s(),
        calendar_offset_s=calendar.offset_s,
        is_up=is_up,
        kinds=kinds,
        settings=settings_of(folder.path),
    )


def _kind_state(
    one: SavedKind, folder: Path, ended: Sequence[JobView], quotas: dict[str, Quota] | None
) -> KindState:
    """Args: quotas: that hold; None: those that its head knows."""
    saved, belief = one.saved, FittedBelief()
    saved.quotas = saved.quotas if quotas is None else quotas
    belief.restore(saved.belief)
    similar_jobs = EqualJobs(folder, saved.cluster, saved.records, ended)
    return KindState(kind=one.kind, saved=saved, similar_jobs=similar_jobs, belief=belief)


def _last_state(folder: StateFolder) -> tuple[bool, bytes, Sequence[JobView]]:
    try:
        with connect_as_owner(folder.path) as client:
            ended = [phase for phase in Phase if phase.is_end]
            return True, client.head_state(), client.jobs(ended, limit=MAX_ENDED)
    except NoPlatform:
        if not folder.journal.exists():
            raise
        return False, *left_behind(folder.path)


def _answer(platform: WhatIfState, query: WhatIfQuery) -> WhatIf:
    nodes = _more_nodes(platform, query)
    there = {node.name: len(node.devices) for node in platform.nodes}
    if strange := [name for name in query.drain if name not in there]:
        raise InvalidInput(f"--drain: there is no node {strange[0]!r}; choose from {', '.join(there)}")
    num_then = platform.num_devices + sum(len(node.devices) for node in nodes)
    num_then -= sum(there[name] for name in {*query.drain})
    policy = query.policy or platform.policy
    quotas = platform.kinds[0].saved.quotas
    refuse_unkept([policy], quotas, "take the quotas away with `swell admin tenants limit`")
    drafts = _drafts(platform, query, nodes, new_policy(policy).domain.sizes)
    told, left_out = dict[str, Forecast](), dict[str, LeftOut]()
    unnamed = platform.kinds[place_without_kind([kind.kind for kind in platform.kinds])].kind
    for kind in platform.kinds:
        of_kind = [draft for draft in drafts if (draft.spec.kind or unnamed) == kind.kind]
        added = tuple(node for node in nodes if node.kind == kind.kind)
        change = PlatformChange(
            policy=query.policy or "",
            nodes=added,
            drained=tuple(node.name for node in kind.saved.cluster.nodes if node.name in query.drain),
        )
        forecasts, unknown = _forecasts(platform, kind, change, of_kind)
        told |= {forecast.id: forecast for forecast in forecasts}
        left_out |= {one.id: one for one in unknown}
    records = sorted(platform.records, key=lambda record: (record.submitted_s, record.id))
    return WhatIf(
        at_s=platform.now_s + platform.calendar_offset_s,
        is_up=platform.is_up,
        policy_now=platform.policy,
        policy_then=policy,
        num_devices_now=platform.num_devices,
        num_devices_then=num_then,
        jobs=tuple(told[record.id] for record in (*records, *drafts) if record.id in told),
        left_out=tuple(left_out[record.id] for record in records if record.id in left_out),
    )


def _forecasts(
    platform: WhatIfState, kind: KindState, change: PlatformChange, drafts: Sequence[JobRecord]
) -> tuple[list[Forecast], Sequence[LeftOut]]:
    """Forecasts of all jobs of a kind, and the jobs that cannot be forecast."""
    num_then = kind.saved.cluster.num_devices + sum(len(node.devices) for node in change.nodes)
    new_jobs = tuple(_known(draft, kind, num_then) for draft in drafts)
    standing, left_out = _standing(platform.now_s, kind, num_then)
    as_is = go_on(new_core(settings=platform.settings), standing, PlatformChange())
    change = replace(change, jobs=new_jobs)
    as_queried = go_on(new_core(settings=platform.settings), standing, change)
    offset_s = platform.calendar_offset_s
    forecasts = [
        _forecast(record, as_is.get(record.id), as_queried[record.id], offset_s)
        for record in (*standing.saved.records, *drafts)
    ]
    return forecasts, left_out


def _more_nodes(platform: WhatIfState, query: WhatIfQuery) -> tuple[Node, ...]:
    """Nodes like the last one there is, of a kind. Raises InvalidInput."""
    if query.add_nodes == 0:
        return ()
    there = {kind.kind: kind.saved.cluster.nodes for kind in platform.kinds if kind.saved.cluster.nodes}
    if not there:
        raise InvalidInput("--add-nodes: the platform has no node to copy; start it with `swell up`")
    if query.kind not in there and (query.kind or len(there) > 1):
        said = f"no node has devices of kind {query.kind!r}" if query.kind else "there are several kinds"
        raise InvalidInput(f"--add-nodes: {said}; name one of these with --kind: {', '.join(there)}")
    like = there[query.kind or next(iter(there))][-1]
    return _like(like, query.add_nodes, {node.name for nodes in there.values() for node in nodes}, platform)


def _like(like: Node, num: int, taken: set[str], platform: WhatIfState) -> tuple[Node, ...]:
    if (num_then := platform.num_devices + num * len(like.devices)) > MAX_DEVICES:
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


def _drafts(
    platform: WhatIfState, query: WhatIfQuery, nodes: Sequence[Node], sizes: Sizes
) -> list[JobRecord]:
    """The jobs of a file, as if they were submitted now, with these nodes there as well."""
    if query.submit is None:
        return []
    named = [kind for kind in platform.kinds if kind.kind]
    usable = {kind.kind: kind.num_usable_devices(query.drain) for kind in named}
    devices = {kind.kind: kind.saved.cluster.num_devices for kind in named}
    for node in nodes:
        usable[node.kind] += len(node.devices)
        devices[node.kind] += len(node.devices)
    at_s = platform.now_s + platform.calendar_offset_s
    loads = {kind.kind: kind.load(query.drain, usable[kind.kind]) for kind in named}
    asked = (with_named_kinds(job.to_spec(at_s), usable) for job in load(query.submit))
    specs = [_with_chosen_kind(spec, loads, sizes) for spec in asked]
    for spec in specs:
        if spec.fixed is None:
            check_job(spec, devices[spec.kind] if spec.kind else sum(devices.values()), sizes)
        else:
            of_kind = [
                len(node.devices) for node in (*nodes, *platform.nodes) if spec.kind in ("", node.kind)
            ]
            check_fixed(spec, of_kind, platform.settings["longest_time_s"])
    taken, drafts = {record.id for record in platform.records}, []
    for spec in specs:
        tries = (f"{spec.name}-new{place or ''}" for place in range(len(taken) + 1))
        job_id = next(name for name in tries if name not in taken)
        taken.add(job_id)
        drafts.append(
            JobRecord(
                id=job_id, spec=spec, submitted_s=platform.now_s, progress=JobProgress(as_of_s=platform.now_s)
            )
        )
    return drafts


def _with_chosen_kind(spec: JobSpec, loads: Mapping[str, KindLoad], sizes: Sizes) -> JobSpec:
    """The kind that the head would choose."""
    kinds = () if spec.kind else named_kinds(spec.kinds, tuple(loads))
    if not kinds:
        return spec
    return msgspec.structs.replace(spec, kind=choose(kinds, spec, loads, sizes))


def _standing(now_s: float, kind: KindState, num_devices: int) -> tuple[PlatformState, Sequence[LeftOut]]:
    """The part of the platform without jobs of which nothing can be foretold; and those jobs."""
    jobs: dict[str, SimJob] = {}
    left_out = []
    for record in kind.saved.records:
        try:
            jobs[record.id] = _known(record, kind, num_devices)
        except InvalidJob:
            left_out.append(LeftOut(id=record.id, why=_why_left_out(record, num_devices)))
    records = [record for record in kind.saved.records if record.id in jobs]
    rows = [job_id for job_id in kind.saved.rows if job_id in jobs]
    saved = msgspec.structs.replace(kind.saved, records=records, rows=rows)
    standing = PlatformState(now_s=now_s, saved=saved, jobs=jobs)
    return undisturbed(standing), left_out


def _why_left_out(record: JobRecord, num_devices: int) -> str:
    if not len(job_sizes(record.spec, num_devices, Sizes.EVERY)):
        return f"has no size that fits in {told_devices(num_devices)}; --add-nodes tells what more would do"
    return "has not been measured yet; ask again after its trial run"


def _known(record: JobRecord, kind: KindState, num_devices: int) -> SimJob:
    """The job with what is believed of it, or else of jobs like it. Raises InvalidJob."""
    known = msgspec.structs.replace(record, progress=copy.copy(record.progress))
    if record.progress.total_steps is None and record.spec.fixed is None:
        is_live = record.spec.elasticity is Elasticity.LIVE
        profile = kind.similar_jobs.profile(record.spec) if is_live else None
        if is_live and profile is None:
            batch = record.spec.global_batch or "its own"
            raise InvalidJob(
                f"job {record.spec.name!r}: the speed of {record.spec.entry} with a global batch of {batch} "
                "was never measured here; submit it once for a few steps (`swell submit ... --steps 8`)"
            )
        known.learn_length(profile)
        if record.spec.starts_silently:
            kind.belief.learn_estimate(record.id, record.spec, record.estimate_s)
        if profile is not None:
            kind.belief.learn_profile(record.id, known.spec, profile)
    try:
        return sim_job(known, kind.belief, num_devices)
    except ValueError as error:
        raise InvalidJob(
            f"{error}: its end is given in epochs, and its script does not say how long an epoch is"
        ) from None


def _forecast(
    record: JobRecord, now: JobForecast | None, then: JobForecast, calendar_offset_s: float
) -> Forecast:
    return Forecast(
        id=record.id,
        name=record.spec.name,
        job_class=record.job_class,
        deadline_s=record.agreed_deadline_s,
        is_hypothetical=now is None,
        now=None if now is None else _by_calendar(now, calendar_offset_s),
        then=_by_calendar(then, calendar_offset_s),
    )


def _by_calendar(forecast: JobForecast, offset_s: float) -> JobForecast:
    """The head that went on, and with it its forecast, is in head time."""
    finish_s, offer_s = forecast.finish_s, forecast.counter_offer_s
    return msgspec.structs.replace(
        forecast,
        finish_s=None if finish_s is None else finish_s + offset_s,
        counter_offer_s=None if offer_s is None else offer_s + offset_s,
    )


class EqualJobs:
    """Jobs are alike that run the same script with the same global batch on workers of the same size.

    Args:
        folder: of the platform's state.
        records: jobs that the head knows.
        ended: jobs that it has forgotten.
    """

    def __init__(
        self, folder: Path, cluster: Cluster, records: Iterable[JobRecord], ended: Sequence[JobView]
    ) -> None:
        self._folder, self._cache = folder, ProfileStore(folder)
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
            if self._is_like(view, spec)
        )
        found = chain(
            [self._kept(spec)],
            (
                known
                for record in self._records
                if (known := record.profile) and self._is_like(record.spec, spec.completed(known.own))
            ),
            map(self._kept, ended),
        )
        return next((profile for profile in found if profile is not None), None)

    def _is_like(self, one: JobSpec | JobView, other: JobSpec) -> bool:
        """Whether trial runs measure the same batches of the same script, wherever it lies.

        Arguments may differ: they mostly say for how long, and how, a model is trained. So may the batch
        where the other's is that of its script.
        """
        names = ["min_batch", "max_batch", "batch_per_worker", "devices_per_worker"]
        names += ["global_batch"] if other.global_batch else []
        is_alike = all(getattr(one, name) == getattr(other, name) for name in names)
        return is_alike and (one.entry == other.entry or self._script(one) == self._script(other) != "")

    def _script(self, one: JobSpec | JobView) -> str:
        """Digest of a script's content; empty where that is not known."""
        try:
            if not one.code:
                script = read_regular(Path(os.path.realpath(one.entry)), MAX_SCRIPT_BYTES)
                return hashlib.sha256(script).hexdigest()
            files = decode_tree(tree_path(self._folder, one.code).read_bytes()).files
        except OSError:
            return ""
        return files[path].digest if (path := os.path.realpath(one.entry)) in files else ""

    def _kept(self, spec: JobSpec) -> Profile | None:
        if not self._cluster.nodes:
            return None
        sizes = tuple(job_sizes(spec, self._cluster.num_devices).tolist())
        kind = self._cluster.nodes[0].kind
        return self._cache.profile(ProfileJob(job_id="", spec=spec, sizes=sizes, device_kind=kind))
