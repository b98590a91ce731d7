"""The agent's end of the helper that has Ray: starts its process when it is needed, and asks it.

A request and its answer are a line of JSON each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection
from pathlib import Path

import msgspec

from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, ClusterRead
from swell.model.quantities import span
from swell.wire.lines import NO_MESSAGE
from swell.wire.whole_files import write_whole

MODULE = "swell.executors.ray.helper"
#: Ray itself gives up sooner where no program listens, and later where none answers.
ANSWER_S = 25.0
MAX_LINE_BYTES = 1 << 24
#: What matters of what Ray logs, the helper says itself.
QUIET = {"RAY_BACKEND_LOG_LEVEL": "error", "RAY_USAGE_STATS_PROMPT_ENABLED": "0"}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the helper is to do; without `start` and `end`: say what there is of this platform's slices."""

    start: SliceOrder | None = None  #: a slice, when Ray has room
    id: int = 0  #: of that slice; no other one has it
    end: tuple[int, ...] = ()  #: slices, with their hosts


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the helper says to a request."""

    refusal: str = ""  #: why Ray cannot be had; the text names the remedy, and the helper ends
    read: ClusterRead = ClusterRead(jobs=())


class RayClient:
    """See `ClusterPort`. A helper that has ended, or does not answer, is followed by another one."""

    def __init__(self, platform: str, engine: str, address: str, last_file: Path) -> None:
        """
        Args:
            engine: as `Engine.encoded` has written it.
            last_file: has the number of the last slice, as no two hosts of a platform have one name.
        """
        self._words = (platform, engine)
        self._where = address
        self._last_file = last_file
        self._process: Process | None = None
        self._asking = asyncio.Lock()

    async def read(self) -> ClusterRead:
        return (await self._ask(Request())).read

    async def submit(self, order: SliceOrder, node: str = "") -> int:
        number = 1
        with contextlib.suppress(OSError, ValueError):  # there was none
            number += int(self._last_file.read_text())
        try:
            write_whole(self._last_file, f"{number}\n".encode())
        except OSError as error:
            raise ClusterError(
                f"{self._last_file} cannot be written ({error.strerror}); make room on its disk"
            ) from error
        await self._ask(Request(start=order, id=number))
        return number

    async def cancel(self, jobs: Collection[int]) -> None:
        if jobs:
            await self._ask(Request(end=tuple(sorted(jobs))))

    async def close(self) -> None:
        """There is no helper any longer."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()

    # ------------------------------------------------------------ inside
    async def _ask(self, request: Request) -> Answer:
        """Raises ClusterError."""
        async with self._asking:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await self._answer(request)
            except TimeoutError:
                await self.close()
                raise ClusterError(
                    f"Ray at {self._where!r} did not answer within {span(ANSWER_S)}; the head of the cluster "
                    "must be up and reachable from here: see `ray status`, or name another with --address"
                ) from None
            except BaseException:  # also where it is no longer waited for: the next answer is another one's
                await self.close()
                raise

    async def _answer(self, request: Request) -> Answer:
        """Raises ClusterError."""
        process = self._process or await self._start()
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 - they are pipes
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
            answer = msgspec.json.decode(await process.stdout.readline(), type=Answer)
        except (ConnectionError, *NO_MESSAGE) as error:
            raise ClusterError(
                "the helper that has Ray has ended, and is started again: see agent.log in the state folder"
            ) from error
        if answer.refusal:
            raise ClusterError(answer.refusal)
        return answer

    async def _start(self) -> Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE, *self._words),
                stdin=PIPE,
                stdout=PIPE,
                limit=MAX_LINE_BYTES,
                env={**os.environ, **QUIET},
            )
        except OSError as error:
            raise ClusterError(
                f"the helper that has Ray cannot be started ({error.strerror or error}); this machine may "
                "lack memory, processes or open files: see `ulimit -a`"
            ) from error
        return self._process
