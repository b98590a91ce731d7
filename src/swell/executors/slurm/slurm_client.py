"""The real Slurm, by its commands. Each is a process that is waited for without holding up the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from swell.executors.local.logs.files import read_tail
from swell.executors.slices.order import SliceOrder, last_words, own_environ
from swell.executors.slices.port import ClusterError, ClusterRead, SliceJob, SliceState
from swell.model.quantities import span
from swell.slurm_words import slurm_seconds

#: Slurm's own commands give up after 9 s where slurmctld is down, and after 49 s where munge is.
LIMIT_S = 60.0
#: Of a head that runs in a job of Slurm: they are about that job.
FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SINFO_", "SCANCEL_")
#: Columns of `squeue` and `sinfo`, which are the same in all versions. Reasons may have a separator in them.
SEPARATOR = "|"
JOB_COLUMNS, NODE_COLUMNS = "%A|%T|%N|%l|%L|%r", "%N|%T"
#: States of jobs. All that are none of these have ended.
STATES = {
    "PENDING": SliceState.WAITING,
    "COMPLETING": SliceState.ENDING,
    "COMPLETED": SliceState.DONE,
    **dict.fromkeys(("FAILED", "BOOT_FAIL", "OUT_OF_MEMORY", "LAUNCH_FAILED"), SliceState.FAILED),
    **dict.fromkeys(
        ("CONFIGURING", "RUNNING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"),
        SliceState.RUNNING,
    ),
}
#: States of a node in which others could have it at once.
IDLE_STATES = frozenset({"idle", "planned"})
TAIL_BYTES = 4096
#: No value, in Slurm's words.
_NONE = ("", "(null)", "none", "None", "N/A", "n/a")
TASK_MODULE = "swell.executors.slurm.slice_task"
_END = "END_OF_SLICE_ORDER"
#: Of a log of idle nodes; times are seconds since 1970.
LOG_FILE, HEADER = "pool.csv", "node,start_s,end_s,devices\n"

log = logging.getLogger("swell.slurm")


class SlurmClient:
    """See `ClusterPort`."""

    def __init__(
        self,
        name: str,
        partition: str,
        submission: Sequence[str],
        output: Path | None = None,
        log: PoolLog | None = None,
    ) -> None:
        """
        Args:
            name: of all jobs of this platform.
            partition: empty: the default one.
            submission: options of `sbatch`, beside these.
            output: the folder to which slices print; None: wherever Slurm has it.
            log: of the nodes that are idle.
        """
        self._name, self._partition, self._submission = name, partition, [*submission]
        self._output, self._log = output, log
        self._partition_known: tuple[str, float] | None = None
        if output is not None:
            self._submission += [f"--output={output / '%j.out'}", f"--chdir={output}"]

    async def partition(self) -> tuple[str, float]:
        """The partition of the options, else the default one, and its GraceTime in seconds.

        Raises ClusterError: there is none.
        """
        if self._partition_known is None:
            named = [self._partition] if self._partition else []
            text = await _run(["scontrol", "show", "partition", *named, "--oneliner"])
            lines = [line for line in text.splitlines() if line.strip()]
            if not self._partition:
                lines = [line for line in lines if " Default=YES " in line] or lines
            line = lines[0] if lines else text
            words = dict(word.partition("=")[::2] for word in line.split())
            if "PartitionName" not in words:
                raise _strange(line)
            grace = words.get("GraceTime", "")
            self._partition_known = words["PartitionName"], float(grace) if grace.isdecimal() else 0.0
        return self._partition_known

    async def read(self) -> ClusterRead:
        _, grace_s = await self.partition()
        ask_jobs = ["squeue", "-h", f"--user={os.getuid()}", f"--name={self._name}", "--states=all"]
        ask_nodes = ["sinfo", "-h", "-N", "-o", NODE_COLUMNS]
        ask_nodes += [f"--partition={self._partition}"] if self._partition else []
        jobs = parse_jobs(await _run([*ask_jobs, "-o", JOB_COLUMNS]))
        nodes = {name: state.lower() for name, state in _rows(await _run(ask_nodes), NODE_COLUMNS)}
        idle = tuple(name for name, state in nodes.items() if state in IDLE_STATES)
        if self._log is not None:
            own = {job.node for job in jobs if job.state is SliceState.RUNNING}
            self._log.note_idle({*idle, *(own & nodes.keys())}, time.time())
        told = tuple(map(self._with_words, jobs))
        return ClusterRead(jobs=told, num_fit=len(nodes), idle=idle, grace_s=grace_s)

    def _with_words(self, job: SliceJob) -> SliceJob:
        """A job that has failed, with why its host says that it has ended."""
        said = ""
        if job.state is SliceState.FAILED and self._output is not None:
            with suppress(OSError):  # it has printed nothing, or the file is gone
                said = last_words(read_tail(self._output / f"{job.id}.out", TAIL_BYTES))
        return msgspec.structs.replace(job, reason=said) if said else job

    async def submit(self, order: SliceOrder, node: str = "") -> int:
        words = ["sbatch", "--parsable", f"--job-name={self._name}", *self._submission]
        words += [f"--nodelist={node}"] if node else []
        said = (await _run(words, batch_script(order))).strip().partition(";")[0]
        if not said.isdigit():
            raise ClusterError(f"sbatch printed {said[:80]!r} in place of the number of a job")
        return int(said)

    async def try_out(self) -> None:
        """Whether Slurm would take a job, which it does not get. Raises ClusterError."""
        await _run(["sbatch", "--test-only", *self._submission], "#!/bin/bash\n")

    async def cancel(self, jobs: Collection[int]) -> None:
        if jobs:
            await _run(["scancel", "--quiet", *map(str, sorted(jobs))])

    async def close(self) -> None:
        if self._log is not None:
            self._log.close(time.time())


def batch_script(order: SliceOrder) -> str:
    """Return the script of a slice: one step that runs its task. Slurm tells steps of a preemption."""
    step = "srun --nodes=1 --ntasks=1 --cpus-per-task=$SLURM_CPUS_PER_TASK"
    return f"""#!/bin/bash
exec {step} {shlex.quote(sys.executable)} -P -m {TASK_MODULE} <<'{_END}'
{msgspec.json.encode(order).decode()}
{_END}
"""


async def _run(words: Sequence[str], given: str | None = None) -> str:
    """What a command prints. Raises ClusterError."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=PIPE if given else None,
            stdout=PIPE,
            stderr=PIPE,
            env=own_environ(os.environ, FOREIGN),
        )
    except OSError as error:
        raise ClusterError(
            f"{words[0]} cannot be run ({error.strerror}); a platform with --engine slurm runs where Slurm's "
            "commands are: start it on a login node, or add their folder to PATH",
            is_final=True,
        ) from error
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(given.encode() if given else None)
    except TimeoutError:
        raise ClusterError(f"{words[0]} did not answer within {span(LIMIT_S)}; see `scontrol ping`") from None
    finally:
        await _end(process)
    if process.returncode:
        raise _failure(words[0], (err or out).decode("utf-8", "replace"))
    return out.decode("utf-8", "replace")


async def _end(process: Process) -> None:
    """No command outlives who has asked."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()


def _failure(program: str, said: str) -> ClusterError:
    """Slurm's own words in one line, without the program's name and level before each."""
    lines = [re.sub(r"^\s*\w+: (error|fatal): ", "", line).strip() for line in said.splitlines()]
    words = f"{program}: {'; '.join(dict.fromkeys(line for line in lines if line))[:400]}"
    return ClusterError(words, is_final=bool(re.search("artition .*not found", said)))


# ---------------------------------------------------------------- what is printed
def parse_jobs(text: str) -> tuple[SliceJob, ...]:
    """Jobs, as `squeue -h -o JOB_COLUMNS` prints them. Raises ClusterError."""
    return tuple(
        SliceJob(
            id=int(job_id),
            state=state_of(state),
            word=state.upper(),
            node=node,
            limit_s=parse_duration(limit),
            left_s=parse_duration(left),
            reason=reason,
        )
        for job_id, state, node, limit, left, reason in _rows(text, JOB_COLUMNS)
    )


def state_of(word: str) -> SliceState:
    """What a state of a job means, in Slurm's word."""
    return STATES.get(word.strip().upper(), SliceState.GONE)


def parse_duration(text: str) -> float | None:
    """Seconds of a time as Slurm prints it; None: it is no limit."""
    try:
        return float(slurm_seconds(text.strip()))
    except ValueError:
        return None


def _rows(text: str, asked: str) -> Iterator[list[str]]:
    """The columns of each line, empty where Slurm has no value. Raises ClusterError."""
    num = asked.count(SEPARATOR)
    for line in filter(str.strip, text.splitlines()):
        columns = [column.strip() for column in line.split(SEPARATOR, num)]
        if len(columns) <= num or (asked == JOB_COLUMNS and not columns[0].isdigit()):
            raise _strange(line)
        yield ["" if column in _NONE else column for column in columns]


def _strange(text: str) -> ClusterError:
    return ClusterError(f"Slurm printed {text.strip()[:80]!r}; this version of it is not understood")


# ---------------------------------------------------------------- idle nodes
class PoolLog:
    """A log of the nodes that were idle for others, which `swell simulate --pool` reads.

    It has a row for each time that a node was idle, or ran only slices. A minute without a look ends all. A
    row is written at its end, so an agent that is killed writes none of those that are open.
    """

    MOST_GAP_S = 60.0

    def __init__(self, folder: Path, num_devices: int) -> None:
        self._file, self._num_devices = folder / LOG_FILE, num_devices
        self._since_s: dict[str, float] = {}  #: nodes that are idle
        self._seen_s = float("-inf")

    def note_idle(self, there: Collection[str], now_s: float) -> None:
        """What a look shows. `there`: nodes that are idle, or on which slices of this platform run."""
        if now_s > self._seen_s + self.MOST_GAP_S:
            self._end(list(self._since_s), self._seen_s)
        self._end([node for node in self._since_s if node not in there], now_s)
        for node in there:
            self._since_s.setdefault(node, now_s)
        self._seen_s = now_s

    def close(self, now_s: float) -> None:
        """All intervals end now: it is not known what comes."""
        self._end(list(self._since_s), min(now_s, self._seen_s + self.MOST_GAP_S))

    def _end(self, nodes: Collection[str], end_s: float) -> None:
        began = {node: round(self._since_s.pop(node)) for node in sorted(nodes)}
        text = "".join(
            f"{node},{start_s},{round(end_s)},{self._num_devices}\n"
            for node, start_s in began.items()
            if round(end_s) > start_s
        )
        if not text:
            return
        try:
            with self._file.open("a") as file:
                file.write(text if file.tell() else HEADER + text)
        except OSError as error:
            log.warning("cannot write %s (%s): make room on its disk", self._file, error.strerror)
