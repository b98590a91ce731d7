"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import read_tail
from swell.executors.remote.join_token import read_token
from swell.executors.remote.listening_door import ListeningDoor
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slice_order import SliceOrder, batch_script
from swell.executors.slurm.slice_pool import PoolLimits, SlicePool
from swell.executors.slurm.slurm_client import SlurmClient
from swell.executors.slurm.slurm_port import SlurmPort, SlurmUnreachable, SubmissionRefused
from swell.model.event import NodeCleared, NodeEndKnown, NodeLost, NodeWarned
from swell.model.lengths import span

TOKEN = "slurm"  # noqa: S105 - its name
#: Of this one, and of those that came after it was revoked.
_TOKENS = re.compile(rf"{TOKEN}(-[0-9]+)?")
#: Where hosts join unless an address is named: all of this machine's, at a port that is free.
ANYWHERE = "0.0.0.0:0"
#: Of the fingerprint of a platform, enough to tell it from others on the cluster.
PLATFORM_CHARACTERS = 12
#: Between two looks at Slurm.
PERIOD_S = 2.0
#: For Slurm to answer at `swell up`, which goes on without: hosts of the agent before may run.
OPEN_S = 12.0
#: For Slurm to end all slices at `swell down`.
CLOSE_S = 6.0
#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0
OUTPUT_FOLDER = "slurm"
TAIL_BYTES = 4096

log = logging.getLogger("swell.slurm")


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SlurmDoor(ListeningDoor):
    """See `local.agent.door.Door`, and `SliceActions`, by which the pool of slices has things done."""

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: SlurmPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        self._engine = engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        self._controller = controller
        super().__init__(controller, replace(options, listen=options.listen or ANYWHERE), session)
        self._platform = self.fingerprint[:PLATFORM_CHARACTERS]
        self._output = options.state_dir / OUTPUT_FOLDER
        self._pool_log = PoolLog(self._output, engine.num_devices) if engine.is_borrowing else None
        submission = (*engine.submission(), f"--output={self._output / '%j.out'}", f"--chdir={self._output}")
        self._port = port or SlurmClient(f"swell-{self._platform}", engine.partition, submission)
        self._pool = SlicePool(
            _limits_of(engine), self, lambda host: bool(controller.running_kinds(host)), time.time
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked_s = float("-inf")
        self._is_looking = self._is_closed = False
        self._grace_s: float | None = None  #: of the partition; None: not known yet
        self._silence = ""  #: why Slurm does not answer, as last told

    def _slice_hosts(self) -> list[str]:
        """Hosts that Slurm has started, and that have joined."""
        return [name for name in self._controller.hosts if _TOKENS.fullmatch(self.token_of(name))]

    async def open(self) -> str:
        try:
            async with asyncio.timeout(OPEN_S):
                await self._ask_partition()
        except SubmissionRefused as error:
            raise DoorError(str(error)) from error
        except SlurmUnreachable as error:
            self._tell_silence(str(error))
        except TimeoutError:
            self._tell_silence(f"Slurm did not answer within {span(OPEN_S)}")
        try:
            make_output_folder(self._output, time.time())
        except OSError as error:
            raise DoorError(f"cannot use {self._output} ({error.strerror}); make room on its disk") from error
        token = str(read_token(self.token_file(TOKEN)))
        address = await super().open()
        self._order = SliceOrder(
            platform=self._platform,
            join=address,
            token=token,
            devices=self._engine.slice_devices,
            is_borrowed=self._engine.is_borrowing,
            num_cpus=self._engine.num_cpus,
        )
        return address

    async def _ask_partition(self) -> None:
        """Learn its GraceTime, once. Raises SlurmUnreachable, SubmissionRefused."""
        if self._grace_s is None:
            self._grace_s = (await self._port.partition()).grace_s

    # ------------------------------------------------------------ the agent
    def tick(self) -> None:
        super().tick()
        now_s = _now_s()
        if not self._is_looking and not self._is_closed and now_s >= self._looked_s + PERIOD_S:
            self._is_looking, self._looked_s = True, now_s
            self._begin(self._look())

    def want_devices(self, num: int) -> None:
        self._pool.want(num, _now_s())

    async def close(self) -> None:
        self._is_closed = True
        await super().close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        try:
            async with asyncio.timeout(CLOSE_S):
                jobs = {*self._pool.jobs, *(job.id for job in (await self._port.read()).jobs)}
                await self._port.cancel(jobs)
        except (TimeoutError, SlurmUnreachable, SubmissionRefused) as error:
            log.warning("slices may be left in Slurm (%s): `scancel --name=swell-%s`", error, self._platform)
        if self._pool_log is not None:
            self._pool_log.close(time.time())

    # ------------------------------------------------------------ Slurm
    async def _look(self) -> None:
        """Ask Slurm once, and do what follows from the answer."""
        try:
            await self._ask_partition()
            read = await self._port.read()
        except (SlurmUnreachable, SubmissionRefused) as error:
            self._tell_silence(str(error))
            return
        finally:
            self._is_looking = False
        if self._silence:
            log.info("Slurm answers again")
            self._silence = ""
        self._pool.read(read, self._slice_hosts(), _now_s())
        if self._pool_log is not None:
            self._pool_log.note(read.nodes, self._pool.own_nodes, time.time())

    def _tell_silence(self, why: str) -> None:
        """Nothing is lost by it: hosts and jobs go on, and leave slices that end."""
        if why != self._silence:
            self._silence = why
            log.warning("%s; slices are neither asked for nor given back until then", why)
        self._pool.note_hosts(self._slice_hosts(), _now_s())

    # ------------------------------------------------------------ what the pool has done
    def submit(self, node: str) -> None:
        self._begin(self._submit(node))

    def cancel(self, job: int) -> None:
        self._begin(self._cancel(job))

    def release(self, host: str) -> None:
        log.info("host %s is given back to Slurm", host)
        with suppress(DoorError):  # it has just left
            self.remove(host)

    def report(self, event: NodeWarned | NodeCleared | NodeEndKnown | NodeLost) -> None:
        if isinstance(event, NodeLost):
            log.warning("%s: %s", event.name, event.cause)
        self._controller.report(event)

    def last_words(self, job: int) -> str:
        return last_words(self._output / f"{job}.out")

    async def _submit(self, node: str) -> None:
        try:
            order = msgspec.structs.replace(self._order, grace_s=self._grace_s or 0.0)
            job = await self._port.submit(batch_script(order), node)
        except (SlurmUnreachable, SubmissionRefused) as error:
            self._pool.refused(str(error), _now_s(), node)
            return
        log.info("asked Slurm for a slice: job %d", job)
        self._pool.submitted(job, _now_s(), node)

    async def _cancel(self, job: int) -> None:
        try:
            await self._port.cancel([job])
        except (SlurmUnreachable, SubmissionRefused) as error:  # it is told again
            self._tell_silence(str(error))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Have work done in the background. An error of our own in it is told, and stops nothing else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_done)

    def _note_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what was to be done with Slurm failed", exc_info=error)


def _limits_of(engine: SlurmEngine) -> PoolLimits:
    """What a platform may have of Slurm, by its options."""
    return PoolLimits(
        max_slices=engine.max_nodes,
        min_slices=engine.min_nodes,
        num_devices=engine.num_devices,
        idle_s=engine.idle_s,
        is_borrowing=engine.is_borrowing,
        partition=engine.partition,
    )


def make_output_folder(folder: Path, now_s: float) -> None:
    """Where slices print to, without what is old. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.glob("*.out"):
        if path.stat().st_mtime < now_s - KEEP_OUTPUT_S:
            path.unlink()


def last_words(path: Path) -> str:
    """Why a host ended, by the output of its slice; empty: that cannot be read."""
    try:
        lines = read_tail(path, TAIL_BYTES).splitlines()
    except OSError:
        return ""
    said = [line.removeprefix("swell: ") for line in lines if line.startswith("swell: ")]
    plain = [line for line in lines if line.strip() and not line.startswith(("slurmstepd", "srun"))]
    return (said or plain or [""])[-1]
