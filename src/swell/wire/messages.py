"""What a worker and its agent say to each other: JSON, one message a line, on their machine.

The life of a worker::

    worker                                     agent
    Hello                         ->
                                  <-           Welcome          (or the line is closed: wrong token)
    ... the script builds its model and data, and reaches `swell.train.elastic` ...
    Ready                         ->
                                  <-           Regroup          once every member of the generation is ready
    [rank 0]  Bound               ->
                                  <-           StoreAddress     to all the others
    ... the process group forms; state comes from `source`, or from a checkpoint ...
    Joined                        ->
    Progress, Progress, ...       ->                            from rank 0
                                  <-           Regroup          a later generation
    ... its group forms while the present one trains; all members agree, inside the all-reduce of a step, that
        each has formed it, and enter it; one whose rank is None says Left and exits with status 143 ...
    Finished                      ->                            at the end condition; exits with 0

When memory runs out in a step a worker says OutOfMemory and exits; the next Regroup says how many samples may
go through the model together from then on.
When a group does not form a worker says JoinFailed, and goes on in the group that it is in, if it is in one.
When a collective fails a worker says Broken and waits for the next Regroup, which then holds at once.
Abort makes the collectives of a generation fail, also one that is under way and would wait for ever.
A worker that is told to Suspend does so at the next step boundary on which all agree: rank 0 writes the
checkpoint and says CheckpointSaved, all say Left.
Before workers join a group that trains its rank 0 is told Witness: it saves, all note what the next step
comes to, and it says Witnessed. One of those that are to join is told Prove: it takes the newest checkpoint
with such a note, computes that step, and says Proved. So does one of a gang that starts from a checkpoint.
While it lives a worker says Alive every `Welcome.heartbeat_s`, from a thread of its own.

Of a worker of several processes each has a line, by its position. All are told the same. All say Hello, Ready
and Alive, and position 0 says the rest for the worker, but for errors and what the script shows.

Numbers of steps count whole steps of the job's own batch: a step of twice that batch counts as two.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from swell.script_facts import BetweenSteps, ScriptFinding, ScriptNumbers
from swell.tally import Reduction, Tally
from swell.wire.reports import Number

#: Bytes of the all-reduces that each kind of device is calibrated with: up to 7.5 million parameters.
CALIBRATED_BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000)


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


# ---------------------------------------------------------------- worker -> agent
class Hello(Message, frozen=True, kw_only=True):
    token: str
    worker: int
    pid: int
    position: int = 0  #: of the process among those of its worker


class Ready(Message, frozen=True, kw_only=True):
    """The script has built its model and can join a group."""


class Bound(Message, frozen=True, kw_only=True):
    """Rank 0's store for this generation listens at `address` (host:port)."""

    generation: int
    address: str


class Joined(Message, frozen=True, kw_only=True):
    """This worker is in the group of this generation, with the state after `steps` steps."""

    generation: int
    steps: int


class JoinFailed(Message, frozen=True, kw_only=True):
    """The group of this generation could not form.

    This worker goes on in the group that it is in. In none, it has the state after `steps`, and waits.
    """

    generation: int
    steps: int
    message: str


class Progress(Message, frozen=True, kw_only=True):
    """Rank 0's progress, about twice a second, at the end, and at once after a generation's first step.

    `odd_since` is the step since which the loss is no number; None while it is one. `metrics` are those that
    were not told before.
    """

    generation: int
    steps: int
    num_workers: int
    global_batch: int | None = None  #: samples of a step of this generation; None: the job's own batch
    step_s: float | None = None  #: mean seconds of such a step, time between epochs left out
    sample_s: list[float] = []  #: each worker's own seconds per sample lately, by rank; empty: not known
    loss: Number | None = None
    odd_since: int | None = None
    metrics: dict[str, Number] = {}
    pause_s: float | None = None
    between: BetweenSteps | None = None  #: since the last one
    save_s: float | None = None  #: mean that training stood still for one of its latest checkpoints
    curves: dict[str, Tally] = {}  #: all values that were not told before, and the loss of each step
    noise_scale: float | None = None  #: of the gradients, in samples; None: nothing new is known


class WorkerValues(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's values of a name: they and those of the other workers become one in each step."""

    reduction: Reduction
    values: list[tuple[int, Number]]  #: step and value, oldest first


class Reported(Message, frozen=True, kw_only=True):
    """What the script has measured, while no step is to be told of: `shares` from any worker, else rank 0."""

    values: dict[str, Number]  #: the latest of each name
    curves: dict[str, Tally] = {}  #: all that were not told before
    shares: dict[str, WorkerValues] = {}
    steps: int = 0  #: finished when the last of the shares was reported
    refusal: str = ""  #: for the job's owner: values whose names are not kept
    #: Names whose steps are counted from the beginning of the process: those of before are not known.
    relative: list[str] = []
    links: dict[str, str] = {}  #: addresses by name, which its output has told


class Stepped(Message, frozen=True, kw_only=True):
    """What the optimizer did in a script that knows nothing of Swell: rank 0 says it about twice a second."""

    num_workers: int
    steps: int  #: since its process began
    own_steps: int | None  #: in all its lives, which checkpoints carry on; None if it does not count (SGD)
    step_s: float | None = None
    is_last: bool = False  #: it was asked to stop, and after this step all its workers get SIGTERM


class StopVote(Message, frozen=True, kw_only=True):
    """A worker's vote on the last step of a script that knows nothing of Swell.

    Once the script was asked to stop, each worker says it at the end of each step; the first number is its
    vote. Answered by `StopVoteResult`.
    """

    num_steps: int  #: that it has ended since its process began


class Distributed(Message, frozen=True, kw_only=True):
    """Whether a script that knows nothing of Swell works with other workers; rank 0 says it.

    It does once it has formed a process group, reads WORLD_SIZE, or has its steps made by a library that
    reads torchrun's environment. That it does not is said after its first step; it may come to do so later.
    """

    is_so: bool
    #: Nothing but a library shows it, such as Accelerate, each of whose workers takes a whole batch.
    is_by_library: bool = False


class ScriptFound(Message, frozen=True, kw_only=True):
    """What a worker has found of its script while it trains."""

    finding: ScriptFinding


class Broken(Message, frozen=True, kw_only=True):
    """A collective failed in this generation, or on the way to it: this worker is in no group any more.

    It has finished `steps` steps, and waits.
    """

    generation: int
    steps: int
    message: str


class CheckpointSaved(Message, frozen=True, kw_only=True):
    """A checkpoint with the state after `steps` is complete at `path`."""

    steps: int
    path: str
    num_bytes: int = 0
    has_room: bool = True  #: another one of this size fits on the disk


class SaveFailed(Message, frozen=True, kw_only=True):
    """No checkpoint was written (disk full, an object that cannot be saved). Training goes on; a
    suspend that waited for it is off."""

    steps: int
    message: str
    is_behind: bool = False  #: of a save behind training, for which no suspend waits


class CheckpointDamaged(Message, frozen=True, kw_only=True):
    """Checkpoints were found damaged and moved away, at the begin or where one was saved."""

    message: str
    sound_steps: int  #: of the newest sound one; 0: there is none


class Witnessed(Message, frozen=True, kw_only=True):
    """The answer to Witness: what the step after a checkpoint has come to is noted beside it."""

    steps: int | None = None  #: of the checkpoint; None: it cannot be done, and is not to be waited for


class Proved(Message, frozen=True, kw_only=True):
    """The answer to Prove: this worker has computed from a checkpoint the step that is noted beside it."""

    steps: int | None = None  #: of the checkpoint; None: nothing was computed, see `why_not`
    findings: tuple[ScriptFinding, ...] = ()  #: how the step came out otherwise; empty: it did not
    why_not: str = ""  #: why it was not computed
    is_last: bool = False  #: the script has made steps for it: this worker exits with 143, for another one


class Left(Message, frozen=True, kw_only=True):
    """Left the group as told; exits now."""

    generation: int


class Finished(Message, frozen=True, kw_only=True):
    """Training is over after `steps` steps; the script goes on to its last lines and exits.

    Rank 0 has said `Progress` before, with the loss and all that was measured.
    """

    steps: int
    #: The script ends before its end condition is met, and not because it has left `run.epochs()`.
    is_early: bool = False
    epochs: int = 0  #: that are over
    place: str = ""  #: FILE:LINE where it has left `run.epochs()`


class Failed(Message, frozen=True, kw_only=True):
    """The script raised after `steps` steps; `message` is the last part of the traceback. Exits with 1."""

    message: str
    steps: int = 0


class OutOfMemory(Message, frozen=True, kw_only=True):
    """Memory ran out, with so many samples on their way through the model together.

    Fewer may fit: `num_samples` is more than 1, and no shard. Exits with 143. Where fewer would not help, or
    nothing was on its way, a worker says Failed.
    """

    num_samples: int
    message: str  #: the error's last line


class Profiled(Message, frozen=True, kw_only=True):
    """Mode `profile`, after Ready: seconds a step by local batch. Exits with 0.

    It may be said twice: as soon as steps are measured, and once the script has done what it does at the end
    of an epoch, if any end in the job. The agent need not wait for the second.
    """

    compute_s: dict[int, float]
    grad_bytes: int
    state_bytes: int
    samples_per_epoch: int
    num_shards: int | None = None  #: of a step, where the script cuts it so: more workers would idle
    goes_on: bool = False  #: another one is to come
    between_s: float | None = None  #: from the last step of an epoch to the first of the next
    findings: list[ScriptFinding] = []
    own: ScriptNumbers | None = None
    save_s: float | None = None  #: that training should stand still for a checkpoint; None: not known


class NotCompared(Message, frozen=True, kw_only=True):
    """Mode `profile`: the script failed, or left its loop, while one worker was compared with two.

    It may go well without, so it is to be run again. Exits with 143.
    """

    finding: ScriptFinding


class GroupStepped(Message, frozen=True, kw_only=True):
    """Mode `group`, from rank 0: seconds of a step that several workers make together. All exit with 0."""

    step_s: float


class Calibrated(Message, frozen=True, kw_only=True):
    """Mode `calibrate`, from rank 0: seconds of an all-reduce by bytes, at this group's size."""

    allreduce_s: dict[int, float]


#: What to do where the workers' replicas differ: say so; give all of them rank 0's state; end the job.
OnDrift = Literal["warn", "heal", "fail"]


class DriftFound(Message, frozen=True, kw_only=True):
    """The workers' replicas differ, for the `num`th time in their group.

    Rank 0 says it the first time, the second, the fourth and so on.
    """

    step: int
    num: int
    message: str  #: in what they differ, and the likely cause
    is_healed: bool  #: rank 0's state was given to all

    @property
    def is_to_be_said(self) -> bool:
        return self.num & (self.num - 1) == 0

    @property
    def sentence(self) -> str:
        healed = "; rank 0's state was given to all" if self.is_healed else ""
        times = f", for the {self.num}th time" if self.num > 2 else ""  # 4, 8, 16, ...
        where = f"in step {self.step}{times}{healed}"
        return f"the replicas of the workers differ {where}: {self.message}"


#: Whom the main thread waits for: other workers, in a collective or until a group forms; the agent's order;
#: none, for it is in the script, or saves or loads.
#: `data`: it reads a stream up to where the others are.
Awaited = Literal["", "peers", "agent", "data"]


class Alive(Message, frozen=True, kw_only=True):
    """A sign of life from a thread of its own, and what the main thread does."""

    generation: int = 0  #: the latest Regroup that it has taken up; 0: none
    steps: int = 0  #: finished since the job began
    awaits: Awaited = ""
    for_s: float = 0.0  #: so long, or since the latest step
    place: str = ""  #: `FILE:LINE in FUNCTION` of the script, where it has been for a while


FromWorker = (
    Hello
    | Ready
    | Bound
    | Joined
    | JoinFailed
    | Progress
    | DriftFound
    | Reported
    | Stepped
    | StopVote
    | Distributed
    | ScriptFound
    | Broken
    | CheckpointSaved
    | SaveFailed
    | CheckpointDamaged
    | Witnessed
    | Proved
    | Left
    | Finished
    | Failed
    | OutOfMemory
    | Profiled
    | NotCompared
    | Calibrated
    | GroupStepped
    | Alive
)


# ---------------------------------------------------------------- agent -> worker
class EarlyStop(msgspec.Struct, frozen=True, kw_only=True):
    """Stop early once this reported metric is good enough."""

    name: str
    value: float
    at_least: bool


class Welcome(Message, frozen=True, kw_only=True):
    """What the worker's job is."""

    mode: Literal["train", "profile", "calibrate", "group"]
    device: str  #: what torch calls it: `cpu`, `cuda:0`
    global_batch: int = 0  #: the job's own; 0: that of the script's loader
    total_steps: int | None = None  #: if the job's end tells it
    epochs: float | None = None  #: if the job's end is told in these
    seed: int
    checkpoint_dir: str = ""
    target: EarlyStop | None = None
    pace_per_s: float | None = None  #: a paced device: at least local_batch / pace_per_s seconds a step
    checkpoint_interval_s: float | None = None  #: None: by what a save takes, and `mean_time_to_loss_s`
    keep_checkpoints: int = 2
    heartbeat_s: float = 0.5
    stop_on_nan: bool = False  #: end before the update of a step whose loss is no number
    on_drift: OnDrift = "heal"  #: what follows where the replicas of the workers differ
    verified_steps: int | None = None  #: of the checkpoint that is kept besides the newest
    rolls_back: bool = False  #: begin there
    local_batches: tuple[
        int, ...
    ] = ()  #: mode `profile`: measure these; mode `group`: the one of each worker
    #: Mode `profile`, of a job whose batch the script tells: measure what so many workers make of it.
    worker_counts: tuple[int, ...] = ()
    group_steps: int = 0  #: mode `group`: steps that are timed, after a few that are not
    compares: bool = False  #: mode `profile`: first compare one worker with two
    resumes: bool = False  #: mode `profile`: then see whether the script can go on from a checkpoint
    max_local_batch: int | None = None  #: samples that a pass may have at most; None: no limit is known
    measures_noise: bool = False  #: mode `train`: tell the noise scale of the gradients


class Regroup(Message, frozen=True, kw_only=True):
    """Be rank `rank` of `num_workers` in this generation, or leave if `rank` is None."""

    generation: int
    rank: int | None
    num_workers: int
    global_batch: int | None = None  #: samples of a step, from this generation on; None: the job's own batch
    source: int | None  #: the rank whose state the others take; None: none has any, see `checkpoint`
    #: Losses up to this step have been told. None: not known, and those of earlier groups are not to be.
    told_steps: int | None = None
    local_rank: int = 0
    local_world_size: int = 1
    group_rank: int = 0  #: of this worker's host among those of the group
    num_hosts: int = 1
    max_local_batch: int | None = None  #: as in Welcome, from this generation on
    mean_time_to_loss_s: float | None = None  #: until training that is not saved is lost; None: not known


class StoreAddress(Message, frozen=True, kw_only=True):
    """Where the store of this generation listens."""

    generation: int
    address: str


class DevicesUsed(Message, frozen=True, kw_only=True):
    """Said to a session: its devices were used just now. No other worker is told."""


class Suspend(Message, frozen=True, kw_only=True):
    """Save and leave, at the next step boundary on which all of this generation agree; void if it breaks."""

    generation: int


class Witness(Message, frozen=True, kw_only=True):
    """Said to rank 0 of a group: save at the next step boundary, and note what the step after it comes to."""


class Prove(Message, frozen=True, kw_only=True):
    """Said to a worker that is Ready and in no group: compute the step that is noted beside a checkpoint."""

    cuts: bool = True  #: one of its passes also in two parts, as at another number of workers


class Verified(Message, frozen=True, kw_only=True):
    """Said to rank 0 of a group: keep the checkpoint after so many steps, which a new process agrees with."""

    steps: int


class Abort(Message, frozen=True, kw_only=True):
    """The group of this generation is broken, whether it formed or not; of no effect in any other."""

    generation: int


class StopVoteResult(Message, frozen=True, kw_only=True):
    """The answer to `StopVote`."""

    most: int | None  #: the largest vote; None: some have not voted yet


OfGroup = Regroup | StoreAddress | Suspend | Witness | Prove | Verified | Abort | StopVoteResult
FromAgent = Welcome | OfGroup | DevicesUsed
