"""Changes of a gang whose script knows nothing of Swell: stop all, start all, as torchrun would.

Its workers get torchrun's environment and no orders. What a script does not save when it gets SIGTERM, or
before, is lost with a change. Rank 0 tells how many steps its optimizer has made
(`swell.train.runtime.unmanaged_script`); a script without an optimizer of torch's tells nothing. Each start
asks for a free port (`FindPort`): rank 0 of the script's own process group listens there.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang import shutdown, transition
from swell.executors.gang.effects import FindPort, Kill, Send
from swell.executors.gang.local_ranks import local_ranks
from swell.executors.gang.member import Member, Slot, State, flatten
from swell.executors.gang.restart_state import Restarts
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import describe_exit, found_port_taken, is_fault_of_script
from swell.executors.gang.training_progress import report
from swell.model.counted import told_workers
from swell.model.event import Outcome, ScriptDistributed
from swell.tally import Tally, tally_of
from swell.wire import environ, messages
from swell.wire.findings import WHOLE
from swell.wire.metric_names import LOSS
from swell.wire.numbers import value_of
from swell.wire.reports import MOST_STEPS

#: Topic of a warning.
SIZE = "size"
#: Under this name a line of output may say after which step its values were measured.
STEP = "step"


# ------------------------------------------------------------ towards the next set of processes
def go_on(live: GangRuntime, restarts: Restarts) -> None:
    """Stop the processes if others are wanted, or none; start those that are wanted, once all are gone."""
    gang = live.gang
    is_other = restarts.slots != gang.wanted_slots or gang.is_suspending
    if live.members and is_other and restarts.leaving_s is None:
        # SIGTERM is to come in the same step of all, and not while the script writes its checkpoint.
        restarts.leaving_s = live.now_s
        live.effects += [Kill(number, environ.STOP_AT_STEP) for number in live.members]
    elif not live.members and restarts.asked_port is None:
        restarts.asked_port = gang.wanted_slots[0]
        live.effects.append(FindPort(gang.wanted_slots[0]))
    elif (
        live.members and restarts.leaving_s is None and all(m.pid is not None for m in live.members.values())
    ):
        transition.finish_change(live)


def note_port(live: GangRuntime, restarts: Restarts, address: str, port: int) -> None:
    """The answer to `FindPort`."""
    if _takes_port(live, restarts):
        _start(live, restarts, address, port)


def note_no_port(live: GangRuntime, restarts: Restarts, why: str) -> None:
    """The other answer: the host is gone, or has none."""
    if _takes_port(live, restarts):
        shutdown.end(live, Outcome.LOST, why)


def _takes_port(live: GangRuntime, restarts: Restarts) -> bool:
    """Whether a start waits for the answer. If rank 0 is to be elsewhere by now, it is asked for there."""
    asked, restarts.asked_port = restarts.asked_port, None
    return live.gang.wanted_slots[:1] == (asked,) and not live.gang.is_ending and not live.members


def _start(live: GangRuntime, restarts: Restarts, address: str, port: int) -> None:
    slots = restarts.slots = live.gang.wanted_slots
    restarts.port, restarts.leaving_s, restarts.terminated_s = port, None, None
    restarts.tally.restart()
    restarts.votes.clear()
    hosts = [live.job.host_of(slot) for slot in slots]
    of_all = {
        environ.WORLD_SIZE: str(len(slots)),
        environ.RESTART_COUNT: str(restarts.num_starts),
        environ.RUN_ID: live.job.job_id,
        environ.MASTER_ADDR: address,
        environ.MASTER_PORT: str(port),
    }
    if live.job.spec.cuts_batch:
        of_all[environ.LOCAL_BATCH] = str(live.job.spec.global_batch // len(slots))
    for rank, (slot, place) in enumerate(zip(slots, local_ranks(hosts), strict=True)):
        near = flatten(s for s, host in zip(slots, hosts, strict=True) if host == hosts[rank])
        own = {
            environ.RANK: str(rank),
            environ.LOCAL_RANK: str(place.local_rank),
            environ.LOCAL_WORLD_SIZE: str(place.local_world_size),
            environ.GROUP_RANK: str(place.group_rank),
        }
        live.start(slot, near, **of_all, **own).state = State.TRAINING
    live.gang.formation.group = list(live.members)
    restarts.num_starts += 1


def pass_time(live: GangRuntime, restarts: Restarts) -> None:
    """Its workers give no sign of life. One that was stopped cannot: its peers would wait for it."""
    for member in live.members.values():
        if member.pid is None or not live.is_stopped(member.number):
            member.heard_s = live.now_s
    limits = live.timeouts
    if live.gang.is_ending or restarts.leaving_s is None:
        return
    if restarts.terminated_s is None and live.now_s >= restarts.leaving_s + limits.step_end_s:
        restarts.terminated_s = live.now_s
        live.terminate(live.members.values())
    elif restarts.terminated_s is not None and live.now_s >= restarts.terminated_s + limits.restart_s:
        live.kill(live.members.values())


def note_exit(live: GangRuntime, restarts: Restarts, member: Member, status: int, log_tail: str) -> None:
    """An exit with 0 after SIGTERM is a stop, too: in a set that is to leave all exits are alike."""
    ending = live.gang.ending
    is_bad_start = found_port_taken(log_tail, restarts.port)
    is_misjudged = is_bad_start and ending is not None and ending.outcome is Outcome.FAILED  # for its echo
    if status and (is_misjudged or (ending is None and restarts.leaving_s is None)):
        is_at_fault = is_fault_of_script(status) and not is_bad_start
        why = describe_exit(member, status, log_tail)
        live.gang.setback.is_over_memory = status == OVER_MEMORY
        shutdown.end(live, Outcome.FAILED if is_at_fault else Outcome.LOST, why)
    elif ending is None and restarts.leaving_s is None and not live.members:
        shutdown.end(live, Outcome.SUCCEEDED, "")


# ------------------------------------------------------------ what its script tells
def hear(live: GangRuntime, restarts: Restarts, message: messages.FromWorker, member: Member) -> None:
    """Rank 0 says how far the gang is."""
    if live.gang.is_ending:
        return
    match message:
        case messages.Stepped():
            _note_steps(live, restarts, message)
        case messages.Reported():
            _note_values(live, restarts, message)
        case messages.Distributed():
            _note_distributed(live, restarts, message)
        case messages.StopVote(num_steps=num_steps):  # see `StepCounter`
            restarts.votes.setdefault(member.number, num_steps)
            have_all = restarts.votes.keys() >= live.members.keys()
            most = max(restarts.votes.values()) if have_all else None
            live.effects.append(Send(member.number, messages.StopVotes(most=most)))


def _note_distributed(live: GangRuntime, restarts: Restarts, message: messages.Distributed) -> None:
    spec = live.job.spec
    may_grow = spec.max_workers is None or spec.max_workers > spec.min_workers
    is_whole = message.is_by_library and not spec.cuts_batch and WHOLE not in spec.accept_differences
    if is_whole and (may_grow or spec.min_workers > 1):
        live.replies.warn(_takes_whole_batches(spec.min_workers), SIZE)
    elif not message.is_so and may_grow:
        live.replies.warn(_stays_small(spec.min_workers), SIZE)
    elif message.is_so:
        restarts.is_distributed = True
        _tell_distributed(live)
        live.replies.warn("", SIZE)


def _tell_distributed(live: GangRuntime) -> None:
    live.replies.report(ScriptDistributed(job_id=live.job.job_id, at_s=live.now_s))


def _note_steps(live: GangRuntime, restarts: Restarts, message: messages.Stepped) -> None:
    pause_s, warning = restarts.tally.note(message, live.now_s)
    live.gang.steps = live.gang.saved_steps = restarts.tally.steps
    report(live, num_workers=message.num_workers, names_loss=True, step_s=message.step_s, pause_s=pause_s)
    if message.is_last and restarts.leaving_s is not None and restarts.terminated_s is None:
        restarts.terminated_s = live.now_s  # a second SIGTERM could come while it saves
    if warning:
        live.replies.warn(warning)


def _note_values(live: GangRuntime, restarts: Restarts, message: messages.Reported) -> None:
    """A value without a curve is a line of output, which may name its `step`."""
    if message.refusal:
        live.replies.warn(message.refusal)
    values = _measured(message)
    step = _step_of(values, live.gang.steps)
    printed = {name: tally_of([(step, value)], len(live.members)) for name, value in values.items()}
    curves = {name: tally for name, tally in printed.items() if tally is not None}
    _tell_values(live, values, curves | _curves_of(restarts, message))


def _curves_of(restarts: Restarts, message: messages.Reported) -> dict[str, Tally]:
    before, relative = restarts.tally.num_before, message.relative
    return {name: one.moved(before) if name in relative else one for name, one in message.curves.items()}


def _measured(message: messages.Reported) -> dict[str, float]:
    return {name: value_of(value) for name, value in message.values.items()}


def _tell_values(
    live: GangRuntime, values: dict[str, float], curves: dict[str, Tally], is_again: bool = False
) -> None:
    if not (values or curves):
        return
    loss = values.pop(LOSS, None)
    report(live, names_loss=True, is_again=is_again, loss=loss, metrics=values, curves=curves)


# ------------------------------------------------------------ from one controller to the next
def take_over(live: GangRuntime, restarts: Restarts) -> None:
    """Tell and ask again what the former controller may not have."""
    restarts.tally.heard_s = None  # what the change before took may have been told
    if restarts.is_distributed:
        _tell_distributed(live)
    if restarts.asked_port is not None:
        live.effects.append(FindPort(restarts.asked_port))


def hear_again(live: GangRuntime, restarts: Restarts, values: messages.Reported) -> None:
    """Curves of values take the place of those that a former controller told.

    So no curve is told that may begin where processes of an earlier start ended, nor what was printed, of
    which hosts keep no curve: it would count twice.
    """
    is_first, before = restarts.num_starts == 1, restarts.tally.num_before
    told = _curves_of(restarts, values).items()
    curves = {name: tally for name, tally in told if is_first or tally.first_step > before}
    _tell_values(live, _measured(values), curves, is_again=True)


def starting(live: GangRuntime, restarts: Restarts) -> tuple[Slot, ...]:
    """Where processes are about to be started."""
    return () if restarts.asked_port is None or live.gang.is_ending else live.gang.wanted_slots


def _step_of(values: Mapping[str, float], steps: int) -> int:
    """After which step the values were measured, as they say, if that is a step."""
    step = values.get(STEP, float(steps))
    return int(step) if 0 <= step < MOST_STEPS and step.is_integer() else steps


def _takes_whole_batches(num: int) -> str:
    return (
        f"the job stays at {told_workers(num)}: a library makes its steps, and each worker of it takes a "
        "whole batch, so with more workers a step would have more samples; submit it with `--global-batch "
        "SAMPLES`, and with `{local_batch}` in its arguments for the batch of one worker, or with "
        f"`--accept-differences {WHOLE}`"
    )


def _stays_small(num: int) -> str:
    workers = told_workers(num)
    return (
        f"the job stays at {workers}: its script forms no process group and does not read WORLD_SIZE, so "
        "more would be identical copies that write the same files; call "
        "torch.distributed.init_process_group before the first step, or submit the job with "
        f"`workers: {num}`"
    )
