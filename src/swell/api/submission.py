"""A request as users write it, in YAML, in Python or on the command line.

A field is declared here once: its option of `swell submit`, its line in the reference of job files and its
part of the API's schema are made of the declaration.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from swell.api import environment_fields as environment
from swell.api import fields
from swell.api.fields import InvalidField, shown
from swell.api.times import is_relative, with_offset
from swell.model import job
from swell.model.coding import encode
from swell.model.option import Option, told_options
from swell.model.webhook import Webhook

Number = int | float

#: Steps, epochs or samples that a job may have.
MOST_COUNTED = 10**12
_BATCH = "the script of a restart job divides its batches itself; remove it, or use elasticity live"
_END = "a restart job ends when its script does; give its steps, or use elasticity live"
#: Fields that a restart job does not have, and why.
NOT_OF_RESTART = {
    **dict.fromkeys(("batch", "batch_per_worker"), _BATCH),
    **dict.fromkeys(("epochs", "samples", "until"), _END),
    "or_nothing": "the deadline of a restart job is decided on once it runs; remove it, and cancel a job "
    "that is refused",
    "hold_after_trial": "a restart job has no trial run; remove it, and hold the job with `swell hold`",
    "stop_on_nan": "a restart job updates its model itself; remove it, and stop in the script",
    "speed": "Swell does not see the samples of a restart job; remove it, or use live",
    "on_drift": "Swell does not compare the workers of a restart job; remove it, or use elasticity live",
    "on_difference": "no step of a restart job is computed again; remove it, or use elasticity live",
    "checkpoint_interval": "the script of a restart job writes its own checkpoints; remove it, or use "
    "elasticity live",
}

#: What a fixed job has in the place of some fields.
OTHERWISE_FIXED = {
    **dict.fromkeys(("script", "entry", "args"), "a fixed job has a command; put it there"),
    **dict.fromkeys(("workers", "devices_per_worker", "processes"), "give devices and nodes instead"),
    "python": "the command names its own interpreter; remove it",
}
#: Retries of a command, and of one that may be suspended, if none are given.
RETRIES, RETRIES_IF_SUSPENDED = 3, 100
#: How long a session may be idle that says nothing of it.
IDLE = "1h"


#: What each field means, its option of `swell submit`, and which jobs have it: `any`, only a `fixed` one, or
#: only a `session`; without such a word, only jobs that are resized.
FIELDS = told_options("""
global_batch: SAMPLES
    Samples in one optimizer step, over all workers. Not needed for `restart` jobs.
        It never changes, unless `batch` or `batch_per_worker` is given: then it is the batch that the
        learning rate was chosen for, and in which `steps` are counted. Default without these two: that of the
        script's loader, which the trial run tells. The script of a `restart` job divides its batches itself;
        `{local_batch}` in its arguments is the part of each worker, and the job has only sizes that divide
        the batch.
batch (rare): MIN:MAX
    Range of the samples in one step, such as `32:512`: policies that choose batches (`unified`, `saxena`) may
    change them while the job runs.
        Others keep `global_batch`. Default of `global_batch`: MIN.
batch_per_worker (rare): SAMPLES
    Samples in one step for each worker, whatever their number.
        The batch grows and shrinks with the workers, under every policy. Default of `global_batch`: that of
        the smallest number of workers.
name (any): NAME
    Name of the job. Default: that of what it runs.
        Letters, digits, `.`, `_`, `-`; at most 63.
script: PATH
    Path of a Python script.
        This or `entry`, not both.
entry (rare): PACKAGE.MODULE[:FUNCTION]
    A function, called without arguments; or a module, run as `python -m` does.
        Written `package.module:function` or `package.module`.
args (none):
    Arguments of the script (`sys.argv`).
command (none, fixed):
    Program of a fixed job and its arguments, a list or a shell's words; no shell runs them. It needs `time`.
    With `swell submit` they stand behind `--`.
devices (fixed): N
    Devices of a fixed job, on all of its nodes together. Default: one on each.
        `CUDA_VISIBLE_DEVICES` names them.
time (fixed): DURATION
    The longest that a fixed job may run, such as `6h`; it is ended then.
        A number is seconds.
nodes (rare, fixed): M
    Nodes of a fixed job: its command starts on each, with its part of the devices. Default: 1.
        `torchrun` finds the others by itself; `SWELL_HOSTS` names all.
grace (rare, fixed): DURATION
    Time from SIGTERM to SIGKILL when a fixed job is ended, up to 1h. Default: 30s.
may_suspend (rare, fixed):
    A fixed job may be ended for others, and starts again later.
        Without it the job keeps its devices from its start to its end.
retries (rare, fixed): N
    How often a fixed job starts again, after its processes were lost or ended for others. Default: 3, or 100
    with `may_suspend`. 0: its command may not run twice.
session (none, session):
    The command gets a terminal, which `swell attach` shows, and starts before others.
idle (session): DURATION
    Time without input, output and use after which a session ends. Default: 1h.
        Use is that one of its GPUs, or a core where it has none, computes for 5 % of some seconds.
port (session): N
    Port that a session serves on its node, such as `8888`.
workdir (rare, any): FOLDER
    Folder the script runs in. Default: the job file's folder, else the current one.
code (rare): KIND
    `snapshot` (default): all workers run the code as it was submitted; `live`: each worker runs it as it is
    when the worker starts.
        A snapshot has the script, its folder and the workdir, limited to files that are tracked by git or
        small.
uploaded (rare, any)
    Digest of code that was uploaded with `POST /v1/code`; `script` and `workdir` are paths in it.
env (any): NAME[=VALUE]
    Environment variables of the workers, in addition to those of `swell up`; one without a value has that of
    the submitter.
env_from (any): FILE
    Further variables of the workers, of a file of `NAME=VALUE` lines that only you can read. Their values are
    secrets: no list, journal or page has them.
        In a request of the API a mapping NAME: VALUE. Lines that begin with `#` say nothing.
python (rare): PATH
    Interpreter of the workers. Default: the platform's.
        A path such as `~/env/bin/python`; `swell[torch]` must be installed for it.
uv (any): FILE
    Requirements (as `requirements.txt`) that are added to the packages of the interpreter.
        Each host makes an environment of them with `uv`, and keeps it for all jobs that ask for the same. Its
        programs are found first. In a request of the API a list of lines.
image (rare, any): NAME
    Run the workers in a container of this image (Docker, Podman or Apptainer).
        Each host must have the image; for Apptainer it is the path of a `.sif` file, or `docker://NAME`. Its
        `python3` is their interpreter. Default: no container.
mount (rare, any): SOURCE[:TARGET][:ro]
    A file or folder of the hosts that the container sees, at the same path or at TARGET; `ro`: it may only
    read it.
needs (rare, any): PATH
    Paths that a host must have to run the workers, such as that of a data set.
        Each host looks for them itself.
steps: N
    End after this many optimizer steps.
        Default without `epochs` and `samples`: the `epochs` or `steps` that the script gives to `elastic`,
        which the trial run tells.
epochs: N
    End after this many passes over the data.
        May be a fraction.
samples (rare): N
    End after this many samples.
until: TARGET
    End earlier, once a reported metric reaches a value, such as `'accuracy>=0.97'`.
metric (rare): NAME
    Evaluation function by which policies tell how much the job still learns, such as `accuracy`. Default:
    `loss`.
        It is `loss`, or a metric that the script reports. Policies that divide the cores of a node
        (`flowcon`) go by its change. `until` does not set it.
metric_goes (rare): WHERE
    Where learning takes the metric: `down` (a loss) or `up` (an accuracy). Default: `up` if `until` names the
    same metric with `>=`, else `down`.
deadline (any): TIME
    When the job must have ended: 18:00, 5m, tomorrow 08:00 or `2030-01-31T18:00:00`; times are in your time
    zone, unless they have an offset.
        An offset is written `...+00:00`. A number is seconds since 1970.
or_nothing (any):
    If the deadline is refused, end. Default: run as a soft job with it: not promised, but tried.
accept_until (rare, any): TIME
    If the deadline is refused, take the earliest one that can be promised, if it is no later than TIME:
    `now+10m` or `2030-01-31T18:00:00`.
        Written as `deadline` is.
job_class (any): CLASS
    `strict` (default with a deadline), `soft` or `best_effort` (default without one).
        `strict`: the deadline is promised or the job is refused. `soft`: finishing late still counts.
priority (any): N
    Among the jobs of its class, those with the highest priority get devices first. Default: 0.
        A promise that was given is kept, whatever comes later. The jobs of all tenants are ordered by it;
        quotas apply as before.
weight (rare): W
    Factor of what the job gains, in policies that add up the gains of jobs. Default: 1.
        `bftrainer`, `saxena`, `hu`, their variants, and `elasticflow` beyond what promises need: of two jobs
        that are alike, the heavier one has no fewer devices.
workers: MIN:MAX
    Number of workers; `MIN:` for no upper limit (default: `1:`), or `N` for exactly N.
        Gangs have 1, 2, 4, 8, ... workers.
devices_per_worker (rare): N
    Devices of each worker: 1, 2, 4, 8, ...
processes (rare): N
    Processes of each worker: one for each of its devices (default of live jobs), or 1 (others).
        Several have a default process group of their own, as under torchrun, in which the script divides the
        model (`fully_shard`, tensor parallel). 1: one process uses all of its devices.
kind (any): KIND,...
    Kind of the devices that the job runs on, as `swell nodes` lists it. Default: the only one.
        Required where the platform has several kinds. For example `cuda:NVIDIA H200`. Of several the job gets
        the first that has room; `any` stands for all that the platform has.
memory (rare, any): SIZE
    Memory limit of all workers on a node together, such as `500MB` or `4GiB`.
        A number is bytes. Default: none.
log_limit (rare, any): SIZE
    What is kept of its output, the begin and the end, such as `1GB`. Default: 64MiB.
        A number is bytes, of all workers together. `swell up --set log_bytes=N` sets another default.
checkpoint_interval (rare): TIME
    Time between two checkpoints, from 1s to 1d, such as `10m`. Default: the platform chooses.
        A number is seconds. The platform chooses by what a checkpoint takes and how often training is lost on
        its nodes.
elasticity (any): KIND
    `live` (default): the script uses `swell.train`; `restart`: it is stopped and started from its own
    checkpoints.
        A live job is resized inside its running processes. A job with a `command` is `fixed`.
booking (rare, any): ID
    Run on the devices of this booking, which `swell book` has made, and while it lasts.
        Before and between its times the job waits.
estimate (rare): DURATION
    Expected time on one worker, such as `10m`.
        A number is seconds. A `restart` job without `steps` is planned by it; others are measured, and `swell
        show` tells how wrong the estimate of a `live` job was.
seed (rare): N
    Random seed of the sample order.
tenant (rare, any): NAME
    Team, project or user that the job belongs to, on a shared cluster.
        Fair-share policies divide the cluster between tenants. Jobs without a tenant share a default one.
after (any): JOB,...
    Jobs that must have succeeded before this one starts, by their ids or names.
        If one ends in another way, this job is cancelled. A job that follows others is measured, and its
        deadline is decided on, when it may start.
group (rare, any): NAME
    Name of a group of jobs that belong together.
        `swell jobs --group NAME` compares them. The jobs of a sweep are a group. Formed as the name of a job.
tags (rare, any): TAG
    Word by which jobs are found, such as `baseline` or `lr=0.1`.
        `swell jobs --tag TAG` lists them. At most 20 of 100 characters, without blanks and commas. A tag
        `NAME=VALUE` is a column in the table of a group.
webhook (rare, any): URL
    Address (`https://...`) that is told of the job by signed POST requests.
        Default: only those that the platform has for all jobs.
notify (any): URL,...
    Services where people are told of the job, as Apprise has them: `slack://...`, `mailto://...`.
        https://appriseit.com/services/ lists all. A group of jobs is told of as a whole.
on (rare, any): EVENT,...
    What its addresses are told: `finished`, `at_risk`, `missed`, `stalled`, `idle`, `started`,
    `failed`, `session_ending`. Default: all.
        `finished`: the job ended, in whichever way. `at_risk`: it is expected to end after its deadline.
        `missed`: the deadline is over. `stalled`: it runs, and makes no steps. `idle`: it holds devices
        that it has not used for ten minutes. `session_ending`: in ten minutes at most a session reaches its
        limit.
hold_after_trial (rare):
    Hold the job once its trial run is over, which measures as many numbers of workers as idle devices allow.
    `swell resume` starts it.
speed (rare): WORKERS:RATE,...
    Samples a second at some numbers of workers, such as `1:7100,2:13100`: believed until the job has run at a
    size and was measured.
        The trial run is made all the same. Other sizes are estimated from these. A promise counts it as it
        does a measured speed.
resize_up_s (rare): SECONDS
    Time that a growth takes from training (R_up of BFTrainer): believed until growths of the job were
    measured.
resize_down_s (rare): SECONDS
    Time that a shrink takes from training (R_dw): believed until shrinks of the job were measured.
keep_estimates (rare):
    Count the stated `speed`, `resize_up_s` and `resize_down_s` also once they were measured.
stop_on_nan (rare):
    Fail at the first loss that is NaN or infinite, before the model is updated with it.
        The state before that step is saved. Default: only a warning.
accept_differences (rare): NAME
    Accept that the result depends on the number of workers in this way, as the trial run found it, such as
    `weighted-mean`.
        A job with such a finding keeps its smallest number of workers otherwise. `swell check` and `swell
        submit` print the names.
on_drift (rare): WHAT
    What to do when the workers' replicas differ: `heal` (default), `warn` or `fail`.
        Compared are parameters, optimizer state and hyperparameters. `heal`: all workers take those of rank
        0, with a warning. `warn`: only the warning. `fail`: the job fails.
on_difference (rare): WHAT
    What to do when a new process computes a step otherwise than the workers: `hold` (default) or `roll_back`.
        `hold`: the job keeps its smallest number of workers. `roll_back`: it also begins again at the newest
        checkpoint from which a new process has computed the same.
""")
#: Fields that only a session has, those that only a fixed job has, and those that it has as others do.
OF_SESSION = tuple(name for name, field in FIELDS.items() if "session" in field.words)
OF_FIXED = tuple(name for name, field in FIELDS.items() if field.words & {"fixed", "session"})
COMMON = {name for name, field in FIELDS.items() if field.words & {"any", "fixed", "session"}}
#: The least and the most that a number may be.
BOUNDS: dict[str, tuple[Number, Number]] = {
    "devices": (1, fields.MAX_DEVICES_PER_WORKER),
    "nodes": (1, 1000),
    "retries": (0, 10000),
    "port": (1, 65535),
    "steps": (1, MOST_COUNTED),
    "epochs": (1e-06, MOST_COUNTED),
    "samples": (1, MOST_COUNTED),
    "priority": (-job.MOST_PRIORITY, job.MOST_PRIORITY),
    "weight": (1 / job.MOST_WEIGHT, job.MOST_WEIGHT),
    "seed": (0, 2**63 - 1),
    "resize_up_s": (0, 1000000.0),
    "resize_down_s": (0, 1000000.0),
}


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job is to be. `to_spec` checks it and makes it complete."""

    global_batch: int | None = None
    batch: str | int | None = None
    batch_per_worker: int | None = None
    name: str | None = None
    script: str | None = None
    entry: str | None = None
    args: tuple[str | Number, ...] = ()
    command: str | tuple[str | Number, ...] | None = None
    devices: int | None = None
    time: str | Number | None = None
    nodes: int | None = None
    grace: str | Number = "30s"
    may_suspend: bool = False
    retries: int | None = None
    session: bool = False
    idle: str | Number | None = None
    port: int | None = None
    workdir: str | None = None
    code: job.CodeSource = job.CodeSource.SNAPSHOT
    uploaded: str | None = None
    env: dict[str, str | Number | None] = {}
    env_from: str | dict[str, str] | None = None
    python: str | None = None
    uv: str | tuple[str, ...] | None = None
    image: str | None = None
    mount: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    steps: int | None = None
    epochs: Number | None = None
    samples: int | None = None
    until: str | None = None
    metric: str | None = None
    metric_goes: Literal["down", "up"] | None = None
    deadline: str | Number | None = None
    or_nothing: bool = False
    accept_until: str | Number | None = None
    job_class: job.JobClass | None = msgspec.field(name="class", default=None)
    priority: int = 0
    weight: Number = 1
    workers: str | int | None = None
    devices_per_worker: int = 1
    processes: int | None = None
    kind: str | tuple[str, ...] | None = None
    memory: str | int | None = None
    log_limit: str | int | None = None
    checkpoint_interval: str | Number | None = None
    elasticity: job.Elasticity = job.Elasticity.LIVE
    booking: str | None = None
    estimate: str | Number | None = None
    seed: int = 0
    tenant: str | None = None
    after: str | tuple[str, ...] = ()
    group: str | None = None
    tags: tuple[str, ...] = ()
    webhook: str | None = None
    notify: str | tuple[str, ...] = ()
    on: str | tuple[str, ...] = ()
    hold_after_trial: bool = False
    speed: str | None = None
    resize_up_s: Number | None = None
    resize_down_s: Number | None = None
    keep_estimates: bool = False
    stop_on_nan: bool = False
    accept_differences: tuple[str, ...] = ()
    on_drift: job.DriftAction | None = None
    on_difference: job.DifferenceAction | None = None

    def anchored(self, base_dir: Path, now_s: float | None = None, *, is_far: bool = False) -> Submission:
        """The same as the submitter means it: relative paths start at `base_dir`, variables without a value
        and times without an offset are those of this process.

        Args:
            now_s: by which today and tomorrow are known; None: the present.
            is_far: whether the platform is on another machine, which has programs of its own.
        """
        now_s = time.time() if now_s is None else now_s
        script = self.script and fields.anchored("script", self.script, base_dir)
        workdir = fields.anchored("workdir", self.workdir or ".", base_dir)
        return msgspec.structs.replace(
            self,
            script=script,
            workdir=workdir,
            deadline=with_offset(self.deadline, now_s),
            accept_until=with_offset(self.accept_until, now_s),
            env=fields.own_variables(
                self.env, is_command=self.is_fixed and self.image is None and not is_far
            ),
            env_from=environment.values_of(self.env_from, base_dir),
            python=self.python
            if is_far or not self.python
            else fields.found_interpreter(self.python, base_dir),
            uv=environment.requirements_of(self.uv, base_dir),
            mount=tuple(environment.anchored_mount(text, base_dir) for text in self.mount),
            needs=tuple(fields.anchored("needs", path, base_dir) for path in self.needs),
            notify=fields.known_services("notify", self.notify),
        )

    def to_spec(self, now_s: float, base_dir: Path | None = None, *, sees_files: bool = True) -> job.JobSpec:
        """The complete request.

        Args:
            now_s: what `now` means in a deadline, seconds since 1970.
            base_dir: where relative paths start; None: paths must be absolute.
            sees_files: its script, workdir and interpreter must be there for this process.

        Raises:
            InvalidField: names the field, the rule and the remedy.
        """
        if base_dir is not None:
            return self.anchored(base_dir, now_s).to_spec(now_s, sees_files=sees_files)
        self._check_kind()
        fields.formed("uploaded", self.uploaded)
        for name, field in declared().items():
            if field.bounds and getattr(self, name) is not None:
                within_bounds(name, getattr(self, name))
        spec = job.JobSpec(
            **(self._command() if self.is_fixed else self._script()),
            **self._surroundings(),
            **self._deadline_terms(now_s),
            **self._stated(),
            **self._training(),
            **self._messages(),
            **fields.kinds(self.kind),
            workdir=fields.folder("workdir", self.workdir),
            end=self._end(),
            booking=self.booking or "",
            seed=self.seed,
            tenant=fields.formed("tenant", self.tenant),
            hold_after_trial=self.hold_after_trial,
            memory_bytes=fields.size("memory", self.memory, *fields.MEMORY_BYTES),
            log_limit_bytes=fields.size("log_limit", self.log_limit, *fields.LOG_BYTES),
            after=fields.predecessors(self.after),
            group=fields.formed("group", self.group),
            tags=fields.tags(self.tags),
            priority=self.priority,
            weight=float(self.weight),
        )
        if sees_files:
            fields.check_files("" if self.script is None else spec.entry, spec.workdir, spec.python)
        return spec

    @property
    def is_fixed(self) -> bool:
        """Whether it is a command, which has one size."""
        return self.command is not None or self.elasticity is job.Elasticity.FIXED

    def _script(self) -> dict[str, Any]:
        """What a job has that is a script or a function: fields of its `JobSpec`."""
        min_workers, max_workers = fields.worker_range(self.workers)
        if any(job.LOCAL_BATCH in str(arg) for arg in self.args):
            self._check_local_batch(min_workers)
        entry = fields.entry(self.script, self.entry)
        return {
            "name": fields.job_name(self.name, entry),
            "entry": entry,
            **self._batches(min_workers, max_workers),
            "args": fields.arguments("args", self.args),
            "min_workers": min_workers,
            "max_workers": max_workers,
            "devices_per_worker": fields.power_of_two("devices_per_worker", self.devices_per_worker),
            "processes_per_worker": self._processes(),
            "elasticity": self.elasticity,
        }

    def _command(self) -> dict[str, Any]:
        """What a job has that is a command: fields of its `JobSpec`."""
        command = fields.command(self.command)
        if self.time is None:
            raise InvalidField("time", "missing; give the longest that the command may run, such as 6h")
        devices, nodes = self.devices or self.nodes or 1, self.nodes or 1
        if devices % nodes:
            raise InvalidField(
                "nodes", f"{devices} devices cannot be divided equally among {nodes} nodes; change one"
            )
        retries = RETRIES_IF_SUSPENDED if self.may_suspend else 0 if self.session else RETRIES
        terms = job.FixedTerms(
            time_s=fields.duration("time", self.time),
            grace_s=fields.duration("grace", self.grace, most_s=3600.0),
            may_suspend=self.may_suspend,
            retries=retries if self.retries is None else self.retries,
            is_session=self.session,
            idle_s=fields.duration("idle", self.idle or IDLE, least_s=1.0) if self.session else None,
            port=self.port or 0,
        )
        script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
        return {
            "name": fields.job_name(self.name, f"/{script}"),
            "entry": job.SESSION_ENTRY if self.session else job.FIXED_ENTRY,
            "global_batch": 1,
            "args": command,
            "min_workers": nodes,
            "max_workers": nodes,
            "devices_per_worker": devices // nodes,
            "elasticity": job.Elasticity.FIXED,
            "fixed": terms,
        }

    def _processes(self) -> int:
        most = 1 if self.elasticity is job.Elasticity.RESTART else self.devices_per_worker
        if self.processes in (None, 1, most):
            return self.processes or most
        why = "a worker of a restart job is one process; remove it, and give the job more workers instead"
        if self.elasticity is not job.Elasticity.RESTART:
            why = f"a worker has {self.devices_per_worker} devices; give 1, or one for each of them"
        raise InvalidField("processes", why)

    def _batches(self, min_workers: int, max_workers: int | None) -> dict[str, Any]:
        if self.elasticity is job.Elasticity.RESTART:  # its script divides its batches itself
            own = 1 if self.global_batch is None else self.global_batch
            return {"global_batch": fields.bounded("global_batch", own, 1, fields.MAX_BATCH)}
        return fields.batches_of(
            self.global_batch, self.batch, self.batch_per_worker, min_workers, max_workers
        )

    def _end(self) -> job.EndCondition:
        given = [name for name in ("steps", "epochs", "samples") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidField(
                given[1], f"{' and '.join(given)} given; give one of them, or none for the script's own end"
            )
        return job.EndCondition(
            steps=self.steps,
            epochs=None if self.epochs is None else float(self.epochs),
            samples=self.samples,
            target=fields.target(self.until),
        )

    def _training(self) -> dict[str, Any]:
        """Fields of its `JobSpec` about what training may do, and which state of it is kept."""
        interval, names = self.checkpoint_interval, self.accept_differences
        return {
            "metric": fields.metric(self.metric),
            "metric_rises": fields.metric_rises(self.metric_goes, self.metric, fields.target(self.until)),
            "checkpoint_interval_s": None
            if interval is None
            else fields.duration("checkpoint_interval", interval, 1.0, 86_400.0),
            "grows_when_distributed": self.elasticity is job.Elasticity.RESTART,
            "stop_on_nan": self.stop_on_nan,
            "on_drift": self.on_drift,
            "on_difference": self.on_difference,
            "accept_differences": tuple(fields.formed("accept_differences", name) for name in names),
        }

    def _messages(self) -> dict[str, Any]:
        """Fields of its `JobSpec` about who is told of it, and of what."""
        services = fields.service_urls("notify", self.notify)
        events = fields.chosen_events(self.on, has_address=bool(self.webhook or services))
        return {
            "webhook": fields.webhook(self.webhook, events),
            "notify": tuple(Webhook(url=url, on=events, is_service=True) for url in services),
        }

    def _stated(self) -> dict[str, Any]:
        """What its owner states of its speed and of what changes take."""
        stated = (self.speed, self.resize_up_s, self.resize_down_s)
        if self.speed is not None and (self.batch, self.batch_per_worker) != (None, None):
            raise InvalidField(
                "speed", "a speed is that of one batch; remove it, or `batch`/`batch_per_worker`"
            )
        if self.speed is not None and self.global_batch is None:
            raise InvalidField("speed", "a speed is that of one batch; give global_batch, too")
        if self.keep_estimates and stated == (None, None, None):
            raise InvalidField(
                "keep_estimates", "nothing is stated; give speed, resize_up_s or resize_down_s, or remove it"
            )
        up_s, down_s = (None if pause_s is None else float(pause_s) for pause_s in stated[1:])
        return {
            "speed": fields.speed(self.speed),
            "resize_up_s": up_s,
            "resize_down_s": down_s,
            "keeps_estimates": self.keep_estimates,
        }

    def _check_kind(self) -> None:
        """Raises InvalidField for a field that a job of its kind cannot have."""
        refused = dict.fromkeys(OF_FIXED, "only a fixed job has it; give it a command, or remove this")
        if self.is_fixed:
            why = "a fixed job runs its command as it is, at one size; remove it"
            refused = dict.fromkeys(declared().keys() - COMMON, why) | OTHERWISE_FIXED
            if self.session:
                why = "a session has one part, and is started once; remove it"
                refused |= dict.fromkeys(("nodes", "may_suspend", "retries"), why)
            else:
                refused |= dict.fromkeys(OF_SESSION, "only a session has it; remove it")
        elif self.elasticity is job.Elasticity.RESTART:
            refused |= NOT_OF_RESTART
        for name, field in declared().items():
            if name in refused and getattr(self, name) != field.default:
                raise InvalidField(field.word, refused[name])

    def _check_local_batch(self, min_workers: int) -> None:
        """Raises InvalidField where no worker could be told its part of the batch."""
        if self.elasticity is not job.Elasticity.RESTART:
            raise InvalidField(
                "args",
                f"{job.LOCAL_BATCH} is for restart jobs, and Swell itself divides the batches of this one; "
                "write the batch of all workers there",
            )
        if self.global_batch is None:
            raise InvalidField(
                "global_batch", f"{job.LOCAL_BATCH} is a part of it; give the batch of all workers"
            )
        if self.global_batch % min_workers:
            raise InvalidField(
                "workers",
                f"{min_workers} workers cannot have equal parts of a batch of {self.global_batch}, as "
                f"{job.LOCAL_BATCH} in the arguments wants; choose a number that divides it",
            )

    def _surroundings(self) -> dict[str, Any]:
        """Fields of its `JobSpec` about what its processes find around them."""
        return {
            "env": fields.variables(self.env, is_command=self.is_fixed),
            "secrets": environment.secret_names(self.env_from, self.env, is_command=self.is_fixed),
            # Links are kept: they tell an environment.
            "python": "" if self.python is None else str(fields.absolute("python", self.python)),
            "uv": environment.requirements_digest(self.uv, self.image),
            "image": fields.image(self.image, self.python),
            "mounts": environment.mounts(self.mount, self.image),
            "needs": tuple(str(fields.absolute("needs", path)) for path in self.needs),
        }

    def _deadline_terms(self, now_s: float) -> dict[str, Any]:
        """Fields of its `JobSpec` about its deadline, and by what it is planned."""
        deadline_s = fields.deadline(self.deadline, now_s)
        job_class = fields.job_class(self.job_class, deadline_s)
        if self.or_nothing:
            fields.check_strict("or_nothing", job_class)
        is_tried = job_class is job.JobClass.STRICT and not self.or_nothing
        is_restart = self.elasticity is job.Elasticity.RESTART
        if self.estimate is None and deadline_s is not None and is_restart and self.steps is None:
            why = "a restart job with a deadline needs its steps, or an estimate; give its time on one worker"
            raise InvalidField("estimate", f"{why}, such as 10m")
        return {
            "job_class": job_class,
            "deadline_s": deadline_s,
            "after_refusal": job.AfterRefusal.SOFT if is_tried else job.AfterRefusal.END,
            "accept_until_s": fields.accept_until(self.accept_until, job_class, deadline_s, now_s),
            "estimate_s": None if self.estimate is None else fields.duration("estimate", self.estimate),
        }


def parse(value: Any) -> Submission:
    """A submission from what JSON, YAML or keywords hold; keys are the words of the job file.

    Raises:
        InvalidField: a key is unknown or missing, or a value has the wrong type.
    """
    return fields.parsed(value, Submission, "a job")


def within_bounds(name: str, value: Number) -> Number:
    """The value of a number, if it is within the bounds of its field. Raises InvalidField."""
    return fields.bounded(name, value, *declared()[name].bounds)


def request_key(key: object) -> str:
    """The idempotency key of a request; empty if it has none. Raises InvalidField."""
    if key is not None and not (isinstance(key, str) and fields.FORMS["key"][0].fullmatch(key)):
        raise InvalidField("key", f"{shown(key)} {fields.FORMS['key'][1]}")
    return str(key or "")


def origin_of(submission: Submission, spec: job.JobSpec, key: str, now_s: float) -> job.Origin:
    """What is to be remembered of a request that came at `now_s`, of secrets only the names."""
    named = msgspec.structs.replace(submission, env_from=dict.fromkeys(spec.secrets, "") or None)
    return job.Origin(
        key=key,
        fingerprint=fingerprint(encode(named)) if key else "",
        deadline_in_s=deadline_in_s(submission.deadline, spec, now_s),
    )


def fingerprint(content: bytes) -> str:
    """Equal for equal requests."""
    return hashlib.sha256(content).hexdigest()


def deadline_in_s(deadline: str | Number | None, spec: job.JobSpec, now_s: float) -> float | None:
    """How far ahead a deadline as `now+...` was; None for any other."""
    return spec.deadline_s - now_s if is_relative(deadline) and spec.deadline_s is not None else None


@dataclass(frozen=True, slots=True)
class JobField:
    """What `Submission` says of one of its fields."""

    word: str  #: its name in a job file
    kinds: tuple[Any, ...]  #: types that its value may have; None is left out
    option: Option
    default: Any
    bounds: tuple[Number, ...]  #: the least and the most that a number may be; empty: nothing is declared

    @property
    def schema(self) -> dict[str, Any]:
        """What a JSON schema says of it besides its type."""
        limits = zip(("minimum", "maximum"), self.bounds, strict=False)
        return {"description": self.option.description, **dict(limits)}


@cache
def declared() -> dict[str, JobField]:
    """All fields by the names of their attributes."""
    hints = get_type_hints(Submission)
    return {
        field.name: JobField(
            word=field.encode_name,
            kinds=fields.alternatives(hints[field.name]),
            option=FIELDS[field.name],
            default=field.default,
            bounds=BOUNDS.get(field.name, ()),
        )
        for field in msgspec.structs.fields(Submission)
    }
