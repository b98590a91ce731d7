"""A gang whose script knows nothing of Swell, and the command of a fixed job: stop all, start all.

Its workers get torchrun's environment and no orders. What a script does not save when it gets SIGTERM, or
before, is lost with a change. Rank 0 tells how many steps its optimizer has made
(`swell.train.runtime.unmanaged_script`); a script without an optimizer of torch's tells nothing. Rank 0
of the script's own process group listens at its host's `MeetingPoint`.

A fixed job (`JobSpec.fixed`) has workers that are its parts: each runs the command as on its own machine.
Whatever ends one, SIGTERM comes first, and SIGKILL when the job's grace is over (`JobContext.limits`). A part
that fails ends the others.
"""

from __future__ import annotations

import signal

from swell.executors.exit_status import HOST_LOST, NOT_STARTED, OUT_OF_MEMORY, OVER_MEMORY, STOPPED
from swell.executors.gang import late_workers, training_progress, transition
from swell.executors.gang.gang_record import (
    Member,
    RestartSet,
    Slot,
    State,
    describe_exit,
    flatten,
    is_fault_of_script,
)
from swell.executors.gang.host_messages import WorkerExited
from swell.executors.gang.job_context import local_ranks
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.training_progress import report
from swell.model.event import Outcome, ScriptDistributed
from swell.model.gang_state import GangState
from swell.model.quantities import span, told_workers
from swell.script_facts import WHOLE
from swell.tally import tally_of
from swell.wire import environ, messages
from swell.wire.reports import LOSS, MOST_STEPS, value_of

#: Topic of a warning.
SIZE = "size"
#: Under this name a line of output may say after which step its values were measured.
STEP = "step"


# ------------------------------------------------------------ towards the next set of processes
def go_on(live: GangRuntime, restarts: RestartSet) -> None:
    """Stop the processes if others are wanted, or none; start those that are wanted once all are gone."""
    gang, members = live.gang, live.members.values()
    is_other = restarts.slots != gang.wanted_slots or gang.state is GangState.SAVING
    if not members:
        _start(live, restarts, gang.wanted_slots)
    elif restarts.leaving_s is None and is_other:
        # SIGTERM is to come in the same step of all, and not while the script writes its checkpoint.
        restarts.leaving_s = live.now_s
        live.send_signal(members, environ.STOP_AT_STEP)
    elif restarts.leaving_s is None and all(member.pid is not None for member in members):
        transition.finish_change(live)


def _start(live: GangRuntime, restarts: RestartSet, slots: tuple[Slot, ...]) -> None:
    spec, points = live.job.spec, live.job.meeting_points
    hosts = [live.job.host_of(slot) for slot in slots]
    if (point := points.get(hosts[0])) is None:
        transition.end(live, Outcome.LOST, "its host is gone")
        return
    restarts.slots = slots
    restarts.leaving_s, restarts.terminated_s = None, None
    restarts.tally.restart()
    restarts.votes.clear()
    of_all = {
        environ.WORLD_SIZE: str(len(slots)),
        environ.RESTART_COUNT: str(restarts.num_starts),
        environ.RUN_ID: live.job.job_id,
        environ.MASTER_ADDR: point.address,
        environ.MASTER_PORT: str(point.port),
    }
    if spec.cuts_batch:
        of_all[environ.LOCAL_BATCH] = str(spec.global_batch // len(slots))
    if spec.end.steps is not None:
        of_all[environ.STEPS] = str(spec.end.steps)
    addresses = ",".join(points[host].address for host in hosts if host in points)
    machines = hosts if spec.fixed is None else [str(rank) for rank in range(len(slots))]
    for rank, (slot, place) in enumerate(zip(slots, local_ranks(machines), strict=True)):
        near = flatten(s for s, machine in zip(slots, machines, strict=True) if machine == machines[rank])
        own = of_all | {
            environ.RANK: str(rank),
            environ.LOCAL_RANK: str(place.local_rank),
            environ.LOCAL_WORLD_SIZE: str(place.local_world_size),
            environ.GROUP_RANK: str(place.group_rank),
        }
        told = own if spec.fixed is None else _environ_of_part(own, addresses)
        live.start(slot, near, **told).state = State.TRAINING
    live.gang.formation.group = list(live.members)
    restarts.num_starts += 1


def _environ_of_part(told: dict[str, str], addresses: str) -> dict[str, str]:
    """Torchrun takes its options from variables that begin with PET.

    The only part has no rank: a launcher that sets none would hand it to all that it starts.
    """
    meeting = {name: told[name] for name in (environ.MASTER_ADDR, environ.MASTER_PORT)}
    options = {f"PET_{name}": value for name, value in meeting.items()}
    options |= {"PET_NNODES": told[environ.WORLD_SIZE], "PET_NODE_RANK": told[environ.RANK]}
    return (meeting if told[environ.WORLD_SIZE] == "1" else told) | options | {environ.HOSTS: addresses}


# ------------------------------------------------------------ limits of time
def watch(live: GangRuntime, restarts: RestartSet) -> None:
    """See that processes leave that are to; its workers give no sign of life."""
    limits, members = live.settings, live.members.values()
    if restarts.leaving_s is not None:
        if restarts.terminated_s is None and live.now_s >= restarts.leaving_s + limits.step_end_s:
            restarts.terminated_s = live.now_s
            live.send_signal(members)
        elif restarts.terminated_s is not None and live.now_s >= restarts.terminated_s + limits.restart_s:
            live.kill(members)
    late_workers.tell_standstill(live)


def keep_limit(live: GangRuntime, time_s: float, now_s: float) -> None:
    """End a fixed job if its time is up; what follows from that comes with the next `tick`.

    Args:
        time_s: by a clock that goes on while the controller is stopped: others wait for the devices.
    """
    live.now_s = now_s
    restarts, terms = live.gang.restarts, live.job.spec.fixed
    is_over = live.gang.ending is not None or live.gang.state is GangState.SAVING
    if restarts is None or terms is None or restarts.begun_s is None or is_over:
        return
    restarts.begun_s = min(restarts.begun_s, time_s)  # the machine has been started again since
    if time_s - restarts.begun_s >= terms.time_s:
        transition.end(live, Outcome.TIMED_OUT, f"its limit of time, {span(terms.time_s)}, was over")


# ------------------------------------------------------------ how its processes end
def likeness_to_echo(live: GangRuntime, end: WorkerExited) -> tuple[bool, bool, bool]:
    """Sorts ends of which it is not known which came first. What others may echo counts: their job's limit,
    then signals, then errors.
    """
    return end.status != OVER_MEMORY, _is_fault(live, end.status), end.status == 0


def note_exit(live: GangRuntime, restarts: RestartSet, member: Member, ended: WorkerExited) -> None:
    """An exit with 0 after SIGTERM is a stop, too: in a set that is to leave all exits are alike."""
    if live.gang.ending is not None:
        return
    terms, status = live.job.spec.fixed, ended.status
    if terms is not None and terms.idle_s and status == environ.EXIT_IDLE:
        transition.end(live, Outcome.SUCCEEDED, f"was idle for {span(terms.idle_s)}")
    elif restarts.leaving_s is None and status:
        why = _describe(live, restarts, member, ended)
        live.gang.setback.is_over_memory = status == OVER_MEMORY
        transition.end(live, Outcome.FAILED if _is_fault(live, status) else Outcome.LOST, why)
    elif restarts.leaving_s is None and not live.members:
        transition.end(live, Outcome.SUCCEEDED, "")


def _is_fault(live: GangRuntime, status: int) -> bool:
    """Whether another start of its processes would end the same.

    A command ends by any signal but SIGKILL as by an error: once and for all.
    """
    if live.job.spec.fixed is None:
        return is_fault_of_script(status)
    return status not in (-signal.SIGKILL, NOT_STARTED, OUT_OF_MEMORY, STOPPED, HOST_LOST)


def _describe(live: GangRuntime, restarts: RestartSet, member: Member, ended: WorkerExited) -> str:
    slots, terms = restarts.slots, live.job.spec.fixed
    if terms is None:
        return describe_exit(member, ended.status, ended.log_tail)
    part = f"the command of part {slots.index(member.slot)} (of {len(slots)}, from 0)"
    who = "its command" if len(slots) == 1 else part
    is_shown = terms.is_session and ended.status > 0  # in its terminal, with what that obeys
    return describe_exit(member, ended.status, "" if is_shown else ended.log_tail, who, "ended")


# ------------------------------------------------------------ what its script tells
def handle_said(
    live: GangRuntime, restarts: RestartSet, message: messages.FromWorker, member: Member
) -> None:
    """Rank 0 says how far the gang is."""
    if live.gang.ending is not None:
        return
    match message:
        case messages.Stepped():
            _note_steps(live, restarts, message)
        case messages.Reported():
            _note_values(live, restarts, message)
        case messages.Distributed():
            _note_distributed(live, restarts, message)
        case messages.StopVote(num_steps=num_steps):  # see `swell.train.runtime.unmanaged_script`
            votes = restarts.votes
            votes.setdefault(member.number, num_steps)
            most = max(votes.values()) if votes.keys() >= live.members.keys() else None
            live.send([member.number], messages.StopVoteResult(most=most))


def _note_distributed(live: GangRuntime, restarts: RestartSet, message: messages.Distributed) -> None:
    spec, stays = live.job.spec, f"the job stays at {told_workers(live.job.spec.min_workers)}"
    may_grow = spec.max_workers is None or spec.max_workers > spec.min_workers
    is_whole = message.is_by_library and not spec.cuts_batch and WHOLE not in spec.accept_differences
    if is_whole and (may_grow or spec.min_workers > 1):
        live.warn(
            f"{stays}: a library makes its steps, and each worker of it takes a whole batch, so with "
            "more workers a step would have more samples; submit it with `--global-batch SAMPLES`, and "
            "with `{local_batch}` in its arguments for the batch of one worker, or with "
            f"`--accept-differences {WHOLE}`",
            SIZE,
        )
    elif not message.is_so and may_grow:
        live.warn(
            f"{stays}: its script forms no process group and does not read WORLD_SIZE, so more would be "
            "identical copies that write the same files; call torch.distributed.init_process_group "
            f"before the first step, or submit the job with `workers: {spec.min_workers}`",
            SIZE,
        )
    elif message.is_so:
        restarts.is_distributed = True
        live.report(ScriptDistributed(job_id=live.job.job_id, at_s=live.now_s))
        live.warn("", SIZE)


def _note_steps(live: GangRuntime, restarts: RestartSet, message: messages.Stepped) -> None:
    found, warning = restarts.tally.note_step(message)
    live.gang.steps = live.gang.saved_steps = restarts.tally.steps
    num_workers, step_s = message.num_workers, message.step_s
    report(live, num_workers=num_workers, names_loss=True, step_s=step_s, found_steps=found)
    if message.is_last and restarts.leaving_s is not None and restarts.terminated_s is None:
        restarts.terminated_s = live.now_s  # a second SIGTERM could come while it saves
    if warning:
        live.warn(warning)


def _note_values(live: GangRuntime, restarts: RestartSet, message: messages.Reported) -> None:
    """A value without a curve is a line of output, which may name its `step`."""
    training_progress.note_links(live, message)
    if message.refusal:
        live.warn(message.refusal)
    said = value_of(message.values.get(STEP, live.gang.steps))
    step = int(said) if 0 <= said < MOST_STEPS and said.is_integer() else live.gang.steps
    values = {name: value_of(value) for name, value in message.values.items()}
    printed = {name: tally_of([(step, value)], len(live.members)) for name, value in values.items()}
    curves = {name: tally for name, tally in printed.items() if tally is not None}
    before, relative = restarts.tally.num_before, message.relative
    for name, tally in message.curves.items():
        curves[name] = tally.moved(before) if name in relative else tally
    loss = values.pop(LOSS, None)
    if message.values or curves:
        report(live, loss=loss, names_loss=True, metrics=values, curves=curves)


# ------------------------------------------------------------ from one controller to the next
def revive(live: GangRuntime, restarts: RestartSet) -> None:
    """Its processes go on, if they were not told to leave, and no others had been started."""
    gang = live.gang
    gang.formation.group = list(gang.workers)
    gang.steps = gang.saved_steps = restarts.tally.steps
    if restarts.leaving_s is not None or restarts.slots != gang.slots:
        transition.end(live, Outcome.LOST, "the controller of its gang was lost while it changed")
