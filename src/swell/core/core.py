"""The head of the scheduler: a batch of events in, commands out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np

from swell.arrays import IntArray, read_only
from swell.core.accounts import with_aged
from swell.core.apply import apply
from swell.core.bookings import Bookings, PromiseGate
from swell.core.converge import Converger, pending, trial_run
from swell.core.core_settings import CoreSettings
from swell.core.deadlines import befall, cause, promise, settle, with_trial_wait
from swell.core.explanations import PendingAccount, PlanEstimate, Standing, TurnChanges
from swell.core.feedback import expect_resize, is_repair
from swell.core.fixed_queue import FixedQueue, told_reserved
from swell.core.kinds import KindLoad, smallest_gang
from swell.core.planner import Planner, named
from swell.core.record import JobRecord
from swell.core.replan import Need, Replan, is_stale
from swell.core.sizes import num_samples_of, shown_sizes
from swell.core.slow_devices import slow_devices
from swell.core.state import HeadState, Words
from swell.core.table import learning_of
from swell.core.usable_nodes import UsableDevices, calendar_of, is_promise_at_stake, with_whole_cores
from swell.model.booking import Booking, BookingRefusal
from swell.model.cluster import Cluster, nodes_needed
from swell.model.command import AnyCommand, LaunchGang, Reconfigure, StopGang, SuspendGang, WakeAt
from swell.model.deadline_state import PLANNED_LATE
from swell.model.event import AnyEvent, PlanFailed
from swell.model.job import Phase
from swell.model.options import Domain
from swell.model.plan import Allocation, JobPlan, Plan, Refusal
from swell.model.quantities import span, told_devices, told_workers
from swell.model.snapshot import Snapshot
from swell.model.throughput import JobThroughput
from swell.model.view import JobView, Story
from swell.throughput.belief import FittedBelief

#: A plan that asks for another one now would get the same answer, again and again.
LEAST_WAIT_S = 0.05
#: Jobs whose reasons are compared together with those of the plan before.
STRETCH = 256
#: Why jobs wait as long as no core has a kind.
NO_NODE_YET = "waits for a node: none has joined this platform yet"


class Core:
    """The jobs and the nodes of one kind of device; `PlatformCore` has a core for each.

    No clock, thread, lock, socket or random state: time arrives inside events.
    """

    def __init__(self, planner: Planner, belief: FittedBelief, settings: CoreSettings) -> None:
        self._planner = planner
        self._settings = settings
        self._state = HeadState(
            belief=belief, domain=planner.policy.offered, half_life_s=settings.half_life_s
        )
        self._lack = NO_NODE_YET
        self._kind = ""
        self._shifts_s = math.inf  #: when accounts, or jobs that wait, are served in another order

    def begin_beside(self, other: Core) -> None:
        """Know nothing but what is so for a whole platform, as another core of it knows it."""
        state, known = self._state, other._state
        state.now_s, state.calendar = known.now_s, known.calendar
        state.is_draining, state.policy = known.is_draining, known.policy
        state.quotas, state.weights = known.quotas, known.weights
        state.ends_s = dict(known.ends_s)

    def be_of_kind(self, kind: str) -> None:
        """Set the reason why jobs wait while the core has no node: nodes of `kind` are lacking.

        An empty `kind` means that the core does not know its own kind, and other cores have theirs.
        """
        self._kind = kind
        which = (
            f"none of kind {kind} is there" if kind else "none of the kind that it was submitted to is there"
        )
        self._lack = f"waits for a node: {which}"

    # ------------------------------------------------------------ the turn
    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Apply every event of the batch, then plan once, at the time of the last.

        With a `PlanFailed` at its end the batch has no plan: the last one is followed. Raises what the policy
        does.
        """
        state = self._state
        state.stories, state.ended, state.refusals, state.ignored = [], [], {}, []
        return self.handle_more(batch)

    def handle_more(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Handle events of the batch that has begun; it may have several such parts."""
        state = self._state
        failed = batch[-1] if batch and isinstance(batch[-1], PlanFailed) else None
        batch = batch if failed is None else [one for one in batch if not isinstance(one, PlanFailed)]
        num_ended, state.culprit = len(state.ended), None
        replan = Replan(state, self._settings.report_plan_s)
        for event in batch:
            try:
                self._hear(event, replan)
            except Exception:
                state.culprit = event
                raise
        need = replan.need()
        state.set_domain(self.domain)
        state.write_rows()
        commands = self._end_trials(state.ended[num_ended:])
        commands += state.unknown.commands()
        if failed is not None:
            state.last_plan.fail(failed)
            commands += self._wake(state.last_plan.retry_s)
        elif state.is_draining:
            commands += self._drain()
        else:
            commands += self._profile_newcomers()
            if need is not Need.NOTHING and state.now_s < state.last_plan.retry_s:
                commands += [*self._go_on(), *self._wake(state.last_plan.retry_s)]
            elif need is Need.PLAN:
                commands += self._follow_plan()
            elif need is Need.GO_ON:
                commands += self._go_on()
        state.write_rows()
        return commands

    def _hear(self, event: AnyEvent, replan: Replan) -> None:
        state = self._state
        if state.unknown.concerns(event):
            apply(state, event)
            replan.note_devices()
            return
        if is_stale(state, event):
            state.now_s = max(state.now_s, event.at_s)
            state.num_stale += 1
            state.ignored.append(event)
            return
        replan.hear(event)
        apply(state, event)
        replan.compare()

    def _follow_plan(self) -> list[AnyCommand]:
        state = self._state
        fixed = None
        if state.index.jobs["apart"] or state.bookings or state.entries:
            fixed = FixedQueue(state, self._bookings(), self._refuse)
            fixed.run()
        plan, snapshot = self._plan()
        if fixed is not None:  # others are to leave what these wait for
            plan = replace(
                plan,
                changes={**fixed.plans, **plan.changes},
                is_sated=False,
                is_short=plan.is_short or bool(fixed.plans),
                revisit=plan.revisit | named(snapshot, snapshot.is_pinned),
                wake_s=min(plan.wake_s, fixed.due_s),
            )
        state.latest = PendingAccount(PlanEstimate(plan, snapshot))
        state.last_plan.note(plan)
        self._decide(plan)
        commands = self._change(plan.changes, plan.is_short)
        state.write_rows()
        period_s = state.policy_state.due_s if plan.has_options else math.inf
        return commands + self._wake(min(plan.wake_s, period_s, self._shifts_s, self._next_late_s(plan)))

    def _bookings(self) -> Bookings:
        planner = self._current_planner
        gate = PromiseGate(planner.policy, lambda: self._snapshot(planner, self._usable(planner)))
        return Bookings(self._state, self._settings, gate)

    def weigh_booking(self, booking: Booking) -> BookingRefusal | None:
        """Why the booking cannot be made now, and from when on it could; None: it can."""
        return self._bookings().weigh(booking)

    def _go_on(self) -> list[AnyCommand]:
        """What the last plan wants is wanted still: others may have left what somebody waits for."""
        state = self._state
        if not (state.last_plan.waiting or state.watchlist("ailing")):
            return []
        return self._change(state.last_plan.waiting, is_short=False)

    def _change(self, plans: Mapping[str, JobPlan], is_short: bool) -> list[AnyCommand]:
        state, converger = self._state, self._converger()
        commands = self._note(converger.run(plans, is_short), plans)
        late = f"it came to no end of its step within {span(self._settings.yield_s)}"
        for record in converger.stopped:
            befall(state, record, "stopped")
            state.tell(record, "stopped", f"gives up its devices: {late}, and a promise lacks them")
        revisit = {*state.last_plan.revisit, *(record.id for record in converger.improvised)}
        state.last_plan.revisit = tuple(sorted(revisit))
        waiting = [record.id for record in converger.waiting if record.id in plans]
        no_more = state.last_plan.waiting.keys() - set(waiting)
        state.last_plan.waiting = {job_id: plans[job_id] for job_id in waiting}
        self._note_waits(converger, no_more)
        for job_id, plan in state.last_plan.waiting.items():
            self._explain_wait(state.records[job_id], plan)
        return commands

    def _note_waits(self, converger: Converger, no_more: Set[str]) -> None:
        """How long launches waited until others had left their devices."""
        now_s = self._state.now_s
        for record in converger.launched:
            since_s = record.commanded.waits_since_s
            self._state.costs.learn_wait(0.0 if since_s is None else now_s - since_s)
        for record in converger.waiting:
            if record.phase is Phase.QUEUED and record.commanded.waits_since_s is None:
                record.commanded.waits_since_s = now_s
                self._state.touch(record)
        for record in (self._state.records[job_id] for job_id in no_more if job_id in self._state.records):
            record.commanded.waits_since_s = None
            self._state.touch(record)

    def _next_late_s(self, plan: Plan) -> float:
        """When the patience with the next one ends that is to give up devices, if it does."""
        leaving = [
            record for record in self._state.watchlist("leaving") if plan.is_short or record.is_cancelled
        ]
        due_s = [record.commanded.asked_s + self._settings.yield_s for record in leaving]
        return min((at_s for at_s in due_s if at_s > self._state.now_s), default=math.inf)

    def _explain_wait(self, record: JobRecord, plan: JobPlan) -> None:
        """A gang that is to be launched waits until the processes of others have left its devices."""
        if record.phase is Phase.QUEUED:
            if not record.is_apart:
                record.status.reason_code = "waiting"
            before = "waits until others have left its devices; then it "
            self._state.latest.note_explained(record.id, partial(_after, before, plan.why))
            self._state.touch(record)

    def _drain(self) -> list[AnyCommand]:
        self._state.last_plan.waiting = {}
        return self._note(self._converger().drain(), {}) + self._wake(math.inf)

    def _converger(self) -> Converger:
        settings = self._settings
        return Converger(self._state, settings.yield_s, chooses_intervals=not settings.checkpoint_interval_s)

    def _end_trials(self, ended: Sequence[JobRecord]) -> list[AnyCommand]:
        """A trial run of a job that is not wanted any more would keep the others waiting."""
        return [
            StopGang(job_id=record.id, generation=record.generation)
            for record in ended
            if record.is_cancelled and record.is_profiling
        ]

    def _profile_newcomers(self) -> list[AnyCommand]:
        state = self._state
        commands: list[AnyCommand] = []
        for record in state.watchlist("new"):
            try:
                if record.backoff.until_s <= state.now_s:
                    commands += self._profile(record)
            except Exception:
                state.culprit = record.id
                raise
        return commands

    def _profile(self, record: JobRecord) -> list[AnyCommand]:
        state = self._state
        if not state.sizes_of(record).size:
            self._explain_lack(record)
            return []
        record.is_profiling = True
        state.explain(record, "profiling", record.backoff.told_of_trial())
        state.touch(record)
        return [trial_run(state, record)]

    def _explain_lack(self, record: JobRecord) -> None:
        """It cannot even be tried: too few devices are there."""
        state, spec = self._state, record.spec
        num_needed = smallest_gang(spec)
        if not state.cluster.nodes:
            code, text = "no_nodes", self._lack
        elif state.reserved and state.num_devices < num_needed:
            code, text = (
                "few_devices",
                f"waits for {told_devices(num_needed)}: fixed jobs or bookings have them",
            )
        elif not state.devices:
            code, text = "no_nodes", "waits for a node: all that are there are to be left (`swell nodes`)"
        elif state.lacks_nodes(record):
            code, text = "no_nodes", _lacks_nodes(record)
        else:
            code, text = "few_devices", f"waits for more nodes: it needs {num_needed} devices"
            text += f", and there are {state.num_devices}"
            if num_needed <= state.num_devices:
                text += f": the policy gives {state.domain.sizes.value}, and none that it may have fits"
        if record.status.reason_code != code or (not state.cluster.nodes and record.status.reason != text):
            state.explain(record, code, text)
            state.touch(record)

    def _plan(self) -> tuple[Plan, Snapshot]:
        """Make a plan; returns it and the snapshot that it was made from."""
        state, planner = self._state, self._current_planner
        state.tenants.forget(state.now_s)
        state.accounts.forget(state.now_s)
        state.policy_state.begin(planner.policy.name, state.now_s)
        while True:
            usable = self._usable(planner)
            seen = self._snapshot(planner, usable)
            snapshot, allocation = planner.policy.decide_fairly(seen)
            if not allocation.refusals:
                break
            is_any_going_on = settle(state, snapshot.job_ids, allocation.refusals)
            if not is_any_going_on and not (usable.num_left_idle and _are_all_refused(snapshot, allocation)):
                break
            if not is_any_going_on:  # no promise is at stake then: others may use what was left idle
                for row in sorted(allocation.refusals):
                    record = state.records[snapshot.job_ids[row]]
                    self._refuse(record, partial(_refusal, allocation.refusals, row))
            state.write_rows()
        is_pinned, backing_off = snapshot.is_pinned.copy(), {}
        for record in state.watchlist("held back"):  # after something has failed
            if record.backoff.until_s > state.now_s and record.id in state.table:
                is_pinned[snapshot.row_of[record.id]] = True
                if record.phase is Phase.QUEUED:
                    backing_off[record.id] = record.backoff.told(state.now_s)
        state.last_plan.begin(state.now_s)
        barred = state.watchlist("barred")
        waiting = [one for one in barred if one.phase is Phase.QUEUED and one.id in state.table]
        standing = Standing(
            is_pinned=is_pinned,
            cluster=usable.cluster,
            held=state.index.targets,
            configured={one.id: one.gang.goal.configuration for one in state.watchlist("configured")},
            backing_off=backing_off,
            barred={one.id: frozenset(one.ruled_out) for one in barred},
            nowhere={one.id: _lacks_nodes(one) for one in waiting if state.lacks_nodes(one)},
            slow=frozenset(one.device for one in slow_devices(state)),
            reserved=told_reserved(state),
        )
        plan = planner.plan(snapshot, allocation, standing)
        state.policy_state.end(plan.memory, planner.policy.period_s)
        return plan, snapshot

    def _usable(self, planner: Planner) -> UsableDevices:
        """All that is there, or as much as has a core for each worker."""
        state = self._state
        may_be_short = planner.policy.makes_promises and state.usable.is_crowded
        if may_be_short and is_promise_at_stake(state.records.values()):
            return with_whole_cores(state.usable)
        return UsableDevices(state.usable, state.num_devices, state.num_borrowed)

    def _snapshot(self, planner: Planner, usable: UsableDevices) -> Snapshot:
        state, settings, num_borrowed = self._state, self._settings, usable.num_borrowed
        state.write_options()
        is_crowded = state.usable.is_crowded and not usable.num_left_idle
        is_told = planner.policy.offered.is_told_learning(is_crowded)
        records = [state.records[job_id] for job_id in state.table.ids] if is_told else []
        calendar, most_devices = calendar_of(state, usable), usable.num_devices
        if planner.policy.reads_calendar:
            changes = (change for _, change in calendar.of_owned)
            most_devices += max(accumulate(changes, initial=0))
        columns = state.table.seen(
            state.now_s,
            most_devices,
            num_borrowed if planner.policy.makes_promises else 0,
            state.costs,
            state.belief.margins,
            settings.checkpoint_interval_s,
        )
        num_quota = usable.num_devices + len(state.reserved)
        fair, self._shifts_s = state.accounts.shares(
            state.now_s,
            state.half_life_s,
            state.weights,
            state.quotas,
            num_quota,
            state.table.account_columns,
        )
        return Snapshot(
            now_s=state.now_s,
            num_devices=usable.num_devices,
            num_borrowed=num_borrowed,
            held_borrowed=self._held_borrowed(usable.cluster),
            num_left_idle=usable.num_left_idle,
            num_tenants=len(state.tenants),
            min_hold_s=settings.min_hold_s,
            quota_devices=state.tenants.quota_devices(state.quotas, num_quota, state.taken_by_tenants),
            fair=fair,
            owned_widths=usable.owned_widths,
            calendar=calendar,
            unheard_s=settings.unheard_s,
            reclaims_per_node_s=state.losses.borrowed.per_node_s(state.now_s),
            is_due=state.policy_state.is_due,
            memory=state.policy_state.memory,
            learning=learning_of(records, state.usable) if is_told else None,
            **(columns if fair is None else with_aged(columns, fair, state.now_s)),
        )

    def _held_borrowed(self, cluster: Cluster) -> IntArray:
        """(J,) devices of borrowed nodes that each job has, or is about to have."""
        state, borrowed = self._state, cluster.borrowed_devices
        if not borrowed:
            return read_only(np.zeros(len(state.table), dtype=np.int64))
        held = map(state.index.targets.get, state.table.ids)
        nums = (len(borrowed.intersection(devices or ())) for devices in held)
        return read_only(np.fromiter(nums, np.int64, len(state.table)))

    @property
    def _current_planner(self) -> Planner:
        policy = self._state.policy
        return self._planner.named(policy) if policy else self._planner

    def _decide(self, plan: Plan) -> None:
        """Admit or refuse those who wait for it, and tell those for whom there is another reason now."""
        state, codes = self._state, plan.account.codes
        known = state.table.codes
        for row in sorted({*_unlike(codes, known), *plan.undecided.tolist()}):
            record = state.records[plan.job_ids[row]]
            if row in plan.refusals:
                self._refuse(record, partial(_refusal, plan.refusals, row))
                continue
            why = partial(plan.account.text, row)
            if record.is_undecided:
                self._accept(record, why, plan.makes_promises)
            else:
                state.tell(record, codes[row], self._told(record, codes[row], why))
            record.status.reason_code = known[row] = codes[row]
            state.unshown.add(record.id)

    def _told(self, record: JobRecord, code: str, why: Callable[[], str]) -> Words:
        """The words of a reason, with the cause appended where a promise is about to break."""
        if code not in PLANNED_LATE or not record.admission.is_promised:
            return why
        found = cause(self._state, record)
        return lambda: f"{why()}: {found}"

    def _accept(self, record: JobRecord, why: Callable[[], str], is_promised: bool) -> None:
        record.accept(promise(self._state, record) if is_promised else None)
        self._state.touch(record)
        if is_promised:
            self._state.tell(record, "promised", partial(_after, "is promised its deadline; ", why))
        else:
            self._state.tell(record, "accepted", partial(_after, "is accepted without a promise; ", why))

    def _refuse(self, record: JobRecord, why: Callable[[], Refusal]) -> None:
        record.admission.is_decided, why = True, with_trial_wait(record, why)
        self._state.refusals[record.id] = why
        now_s = self._state.now_s
        self._state.end(record, Phase.REJECTED, "refused", lambda: why().told(now_s))

    def _note(self, commands: list[AnyCommand], plans: Mapping[str, JobPlan]) -> list[AnyCommand]:
        """Each change of a gang becomes a line of its job's story, with the reason for it."""
        state = self._state
        for command in commands:
            if isinstance(command, LaunchGang | Reconfigure | SuspendGang):
                record = state.records[command.job_id]
                if not record.gang.is_given_a_share:  # what comes of that is told with others
                    state.tell(record, "decided", self._decision(record, command, plans.get(record.id)))
                if isinstance(command, Reconfigure) and not record.gang.is_reconfigured_in_place:
                    expect_resize(state, record, command, plans.get(record.id))
            if not isinstance(command, WakeAt):
                state.touch(state.records[command.job_id])
        return commands

    def _decision(
        self, record: JobRecord, command: LaunchGang | Reconfigure | SuspendGang, plan: JobPlan | None
    ) -> Words:
        state, before, after = self._state, record.num_workers, record.target_workers
        if record.gang.is_reconfigured_in_place:
            return f"is to have {record.gang.goal.configuration.told(record.spec.global_batch)}"
        if isinstance(command, SuspendGang):
            after = 0
        elif is_repair(record, command):
            return f"is to go on with {told_workers(after)}"
        change = f"is to go from {before} to {after} workers"
        if record.spec.fixed is not None:
            change = f"is to {'start' if after else 'be ended, and to start again later'}"
        if state.is_draining:
            return f"{change}: the platform is stopping"
        if record.is_held:
            return f"{change}: its owner holds it"
        if left := state.nodes_to_leave(record):
            return f"{change}, away from {', '.join(left)}, which gets no more work"
        if plan is None:
            return f"{change}: {state.reason_of(record)}"
        return partial(_after, f"{change}: ", plan.why)

    def _wake(self, planned_s: float) -> list[AnyCommand]:
        """Ask to be woken for what the plan waits for, unless that is what was asked last."""
        state = self._state
        ends_s = [planned_s]
        backoffs = [record.backoff for record in state.watchlist("held back")]
        ends_s += [
            at_s for one in backoffs for at_s in (one.until_s, one.share_until_s) if at_s > state.now_s
        ]
        wake_s = min(ends_s)
        wake_s = max(wake_s, state.now_s + LEAST_WAIT_S)
        if math.isinf(wake_s) or wake_s == state.wake_s:
            return []
        state.wake_s = wake_s
        return [WakeAt(at_s=wake_s)]

    # ------------------------------------------------------------ what others may see
    @property
    def state(self) -> HeadState:
        """Only to be read."""
        return self._state

    @property
    def domain(self) -> Domain:
        """What the policy that decides chooses from."""
        return self._current_planner.policy.offered

    @property
    def makes_promises(self) -> bool:
        """The policy that decides promises deadlines."""
        return self._current_planner.policy.makes_promises

    def views(self) -> list[JobView]:
        """Jobs that have not ended, oldest first."""
        state = self._state
        return [state.latest.told(record).complete(state.now_s) for record in state.records.values()]

    def throughput(self, job_id: str) -> JobThroughput | None:
        """The curve of a job that has not ended, up to the most workers that it may have.

        None: there is no such job, or it has no profile.
        """
        state, record = self._state, self._state.records.get(job_id)
        if record is None or record.profile is None:
            return None
        spec, profile = record.spec, record.profile
        sizes = shown_sizes(spec, state.cluster.num_devices, state.domain.sizes)
        hosts = nodes_needed(state.cluster.widths, sizes * spec.devices_per_worker)
        return JobThroughput(
            job_id=record.id,
            kind=profile.device_kind,
            devices_per_worker=spec.devices_per_worker,
            most_workers=int(sizes[-1]) if sizes.size else 0,
            grad_bytes=profile.grad_bytes,
            points=state.belief.throughput(record.id, sizes, np.maximum(hosts, 1)),
            num_samples=num_samples_of(spec, profile),
        )

    def changes(self) -> TurnChanges:
        """What became of open jobs since this was last asked; the first time, of all."""
        state = self._state
        changed = [state.records[job_id] for job_id in sorted(state.unshown)]
        state.unshown.clear()
        told = [state.latest.told(record) for record in changed]
        return TurnChanges(state.now_s, told, state.latest.outlook)

    def show_all(self) -> None:
        """`changes` is to tell of all open jobs: something that all have in common is another one."""
        self._state.unshown.update(self._state.records)

    def ended_views(self, with_offers: bool = True) -> list[JobView]:
        """Jobs that ended in the latest batch; the head has forgotten them.

        Args:
            with_offers: to those refused; False saves the time to find the earliest deadlines that could have
                been promised, where these are not read.
        """
        state = self._state
        if with_offers:
            for record in state.ended:
                if why := state.refusals.get(record.id):
                    record.status.message = record.status.reason = why().text
                    record.admission.counter_offer_s = why().earliest_deadline_s
            for job_id, why in state.refusals.items():
                if job_id in state.records:  # it goes on all the same
                    admission = state.records[job_id].admission
                    admission.refusal, admission.counter_offer_s = why().text, why().earliest_deadline_s
                    state.unshown.add(job_id)
        return [record.view() for record in state.ended]

    def stories(self) -> list[tuple[str, Story]]:
        """What the latest batch added to the jobs' stories."""
        return [
            (job_id, Story(at_s=at_s, code=code, text=words if isinstance(words, str) else words()))
            for job_id, at_s, code, words in self._state.stories
        ]

    # ------------------------------------------------------------ jobs of several kinds
    @property
    def usage(self) -> KindLoad:
        """How many of the devices are in use, and how many waiting jobs need."""
        state, held = self._state, self._state.index.owner.keys() | self._state.unknown.owner.keys()
        waiting = (
            record
            for record in state.records.values()
            if record.phase is Phase.QUEUED and not record.is_set_aside
        )
        return KindLoad(
            num_devices=state.num_devices,
            num_idle=len(state.devices - held),
            num_wanted=sum(smallest_gang(record.spec) for record in waiting),
        )

    # ------------------------------------------------------------ recovery
    def save(self) -> bytes:
        """All that the head remembers, for a fold of the journal."""
        return self._state.save()

    def load(self, data: bytes) -> None:
        state = self._state
        state.load(data)
        state.set_domain(self.domain)
        state.write_rows()

    def under_way(self) -> list[AnyCommand]:
        """Commands whose answer is still out: said again after a restart, they are idempotent."""
        state = self._state
        commands = [command for record in state.records.values() if (command := pending(state, record))]
        commands += [gang.command() for gang in state.unknown.gangs.values() if gang.is_told]
        return commands if state.wake_s is None else [*commands, WakeAt(at_s=state.wake_s)]


def _after(before: str, why: Callable[[], str]) -> str:
    return before + why()


def _refusal(refusals: Mapping[int, Refusal], row: int) -> Refusal:
    """Return the refusal of a row; where the policy fails to word it, a refusal that says so."""
    try:
        return refusals[row]
    except Exception as error:  # noqa: BLE001 - it stands where the refusal would
        return Refusal(earliest_deadline_s=None, text=f"the policy has no words for it: {error!r}")


def _unlike(values: Sequence[str], others: Sequence[str]) -> Iterator[int]:
    """Where two lists of equal length differ; to compare stretches costs a tenth of comparing each."""
    for begin in range(0, len(values), STRETCH):
        end = begin + STRETCH
        if values[begin:end] != others[begin:end]:
            pairs = zip(values[begin:end], others[begin:end], strict=True)
            yield from (row for row, (one, other) in enumerate(pairs, begin) if one != other)


def _lacks_nodes(record: JobRecord) -> str:
    why = next(reversed(record.ruled_out.values()))
    return f"waits for a node that has what it needs: {why}"


def _are_all_refused(snapshot: Snapshot, allocation: Allocation) -> bool:
    """Who asks for a promise; and no promise was made before."""
    is_all = len(allocation.refusals) == int(snapshot.is_undecided.sum())
    return is_all and not snapshot.is_promised.any()
