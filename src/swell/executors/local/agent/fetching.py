"""What a host gets for a job before it opens a run: a container image, and paths by the job's own command."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

from swell.executors.hosts.messages import OpenRun
from swell.executors.local.agent.job_files import OpeningRefusal, lack_of_needs
from swell.executors.local.containers.engine import ContainerEngine, EngineDown
from swell.executors.local.files.background import Background
from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.zygote.place import mark_of
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire.environ import MARK

#: Of what a command has printed: its end is shown if it fails.
SHOWN_BYTES = 500
#: In the mark of its process, where a zygote has its id.
FETCH = "fetch"


class FetchOutcome(NamedTuple):
    """What a host has got."""

    took_s: dict[str, float]  #: `image` and `data`, as far as they were missing -> seconds
    refusal: OpeningRefusal | None  #: why the run cannot be opened


class HostFetches:
    """Gets what a job needs and its host lacks, the same thing only once at a time.

    An image that cannot be pulled is no refusal: the container that is then started says what is wrong.
    """

    def __init__(
        self, state_dir: Path, find_engine: Callable[[], ContainerEngine], background: Background
    ) -> None:
        """
        Args:
            find_engine: waits for the engine. Raises EngineDown.
        """
        self._state_dir, self._find_engine, self._background = state_dir, find_engine, background
        self._locks: dict[tuple[str, ...], Lock] = {}
        self._images: set[str] = set()  # that are known to be here
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def get(self, order: OpenRun, host: str, then: Callable[[FetchOutcome], None]) -> None:
        """`then` is called at once if nothing is to be got, else later."""
        spec = order.spec
        wants_image = bool(spec.image) and spec.image not in self._images
        wants_data = bool(spec.fetch) and bool(lack_of_needs(spec, host))
        if not (wants_image or wants_data):
            then(FetchOutcome({}, None))
            return
        image = self._locks.setdefault(("image", spec.image), Lock())
        data = self._locks.setdefault(("data", spec.fetch, *spec.needs), Lock())
        self._background(lambda: self._got(spec, host, image, data), then)

    def close(self) -> None:
        """Kill what is under way."""
        self._is_closed = True
        for process in tuple(self._running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    # ------------------------------------------------------------ in the background
    def _got(self, spec: JobSpec, host: str, image: Lock, data: Lock) -> FetchOutcome:
        took_s: dict[str, float] = {}
        refusal = None
        if spec.image:
            with image:
                began_s = time.monotonic()
                if self._pull(spec.image):
                    took_s["image"] = time.monotonic() - began_s
        if spec.fetch:
            with data:
                began_s = time.monotonic()
                if lack_of_needs(spec, host):
                    refusal = self._run(spec, host)
                    took_s["data"] = time.monotonic() - began_s
        return FetchOutcome(took_s, refusal)

    def _pull(self, image: str) -> bool:
        """Whether the image was missing and is here now."""
        try:
            engine = self._find_engine()
        except EngineDown:
            return False
        was_here = engine.has_image(image)
        is_here = was_here or self._status((engine.program, "pull", image), None, {}, subprocess.DEVNULL) == 0
        if is_here:
            self._images.add(image)
        return is_here and not was_here

    def _run(self, spec: JobSpec, host: str) -> OpeningRefusal | None:
        """Run the job's command. Returns why what it needs is not here all the same."""
        folder = spec.workdir if os.path.isdir(spec.workdir) else None
        with tempfile.TemporaryFile() as output:
            status = self._status(("/bin/sh", "-c", spec.fetch), folder, dict(spec.env), output)
            lack = lack_of_needs(spec, host)
            if not lack:
                return None
            shown = _end_of(output)
        ended = f"ended with status {status}" if status else "succeeded, but did not bring it"
        why = f"{lack}; its command `fetch` {ended}" + (f": {shown}" if shown else "")
        return OpeningRefusal(Outcome.LOST, why, is_lacking=True)

    def _status(
        self, words: Sequence[str], folder: str | None, environ: Mapping[str, str], output: BinaryIO | int
    ) -> int:
        """Run a program to its end, which is that of this host at the latest."""
        if self._is_closed:
            return -signal.SIGKILL
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environ, MARK: mark_of(self._state_dir, FETCH).text()},
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        self._running.add(process)
        if self._is_closed:  # since it was asked
            self.close()
        try:
            return process.wait()
        finally:
            self._running.discard(process)


def _end_of(output: BinaryIO) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - SHOWN_BYTES))
    return " ".join(output.read().decode(errors="replace").split())
