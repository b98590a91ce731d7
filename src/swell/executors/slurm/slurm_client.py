"""The real Slurm, by its commands. Each is a process that is waited for without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from swell.executors.slurm.columns import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    StrangeOutput,
    parse_jobs,
    parse_nodes,
    parse_partition,
)
from swell.executors.slurm.refusals import remedy_of_refusal, remedy_of_silence, shortened
from swell.executors.slurm.slurm_port import SlurmPartition, SlurmRead, SlurmUnreachable, SubmissionRefused
from swell.model.lengths import span

#: Slurm's own commands give up after 9 s where slurmctld is down, and after 49 s where munge is.
LIMIT_S = 60.0
#: Of a head that runs in a job of Slurm: they are about that job.
FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SINFO_", "SCANCEL_")
KEPT = ("SLURM_CONF",)
Read = TypeVar("Read")


class SlurmClient:
    """See `SlurmPort`."""

    def __init__(self, name: str, partition: str, submission: Sequence[str]) -> None:
        """
        Args:
            name: of all jobs of this platform.
            partition: empty: the default one.
            submission: options of `sbatch`, beside these.
        """
        self._name, self._partition, self._submission = name, partition, tuple(submission)

    async def partition(self) -> SlurmPartition:
        words = [
            "scontrol",
            "show",
            "partition",
            *([self._partition] if self._partition else []),
            "--oneliner",
        ]
        text = await _run(words)
        lines = [line for line in text.splitlines() if line.strip()]
        if not self._partition:
            lines = [line for line in lines if " Default=YES " in line] or lines
        return _understood(parse_partition, lines[0] if lines else text)

    async def read(self) -> SlurmRead:
        jobs = [
            "squeue",
            "-h",
            f"--user={os.getuid()}",
            f"--name={self._name}",
            "--states=all",
            "-o",
            JOB_COLUMNS,
        ]
        nodes = ["sinfo", "-h", "-N", "-o", NODE_COLUMNS]
        nodes += [f"--partition={self._partition}"] if self._partition else []
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_try(words)) for words in (jobs, nodes)]
        told = [task.result() for task in asked]
        for text in told:
            if isinstance(text, Exception):
                raise text
        return SlurmRead(
            jobs=_understood(parse_jobs, str(told[0])), nodes=_understood(parse_nodes, str(told[1]))
        )

    async def submit(self, script: str, node: str = "") -> int:
        words = ["sbatch", "--parsable", f"--job-name={self._name}", *self._submission]
        words += [f"--nodelist={node}"] if node else []
        said = (await _run(words, script)).strip().partition(";")[0]
        if not said.isdigit():
            raise SlurmUnreachable(f"sbatch printed {said[:80]!r} in place of the number of a job")
        return int(said)

    async def try_out(self, script: str) -> None:
        """Whether Slurm would take a job, which it does not get. Raises SubmissionRefused."""
        await _run(["sbatch", "--test-only", *self._submission], script)

    async def cancel(self, jobs: Collection[int]) -> None:
        if jobs:
            await _run(["scancel", "--quiet", *map(str, sorted(jobs))])


async def _try(words: Sequence[str]) -> str | Exception:
    try:
        return await _run(words)
    except (SlurmUnreachable, SubmissionRefused) as error:
        return error


async def _run(words: Sequence[str], given: str | None = None) -> str:
    """What a command prints. Raises SlurmUnreachable, SubmissionRefused."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE if given else None, stdout=PIPE, stderr=PIPE, env=slurm_environ(os.environ)
        )
    except OSError as error:
        raise SubmissionRefused(
            f"{words[0]} cannot be run ({error.strerror}); a platform with --engine slurm runs where Slurm's "
            "commands are: start it on a login node, or add their folder to PATH"
        ) from error
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(given.encode() if given else None)
    except TimeoutError:
        raise SlurmUnreachable(
            f"{words[0]} did not answer within {span(LIMIT_S)}; `scontrol ping` tells whether slurmctld is up"
        ) from None
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


def _failure(program: str, said: str) -> SlurmUnreachable | SubmissionRefused:
    words = f"{program}: {shortened(said)}"
    if remedy := remedy_of_silence(said):
        return SlurmUnreachable(f"{words}; {remedy}")
    if remedy := remedy_of_refusal(said):
        return SubmissionRefused(f"{words}; {remedy}")
    return SlurmUnreachable(words)


def slurm_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for Slurm's commands, without those of the job in which the head runs."""
    own = {name: value for name, value in environ.items() if name in KEPT or not name.startswith(FOREIGN)}
    return {**own, "SLURM_TIME_FORMAT": "%s"}


def _understood(parse: Callable[[str], Read], text: str) -> Read:
    """What the text says. Raises SlurmUnreachable: the versions of Slurm and Swell do not fit."""
    try:
        return parse(text)
    except StrangeOutput as error:
        raise SlurmUnreachable(f"{error}; this version of Slurm is not understood") from error
