"""The engine's command that runs one worker in a container: a process that the zygote forks becomes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass

from swell.executors.local.containers.engine import ContainerEngine
from swell.executors.local.containers.mounts import Mount
from swell.executors.local.limits.allocation import available_bytes
from swell.executors.local.zygote.place import DEFAULT_VARIABLES, TORCH_VARIABLES
from swell.executors.local.zygote.process import THREAD_VARIABLES

#: Called by the zygote's child with a program and its arguments.
CALL = "swell.executors.local.containers.command:become"
#: Variable with the first line of what the program reads. The command line is to be seen by all users.
FIRST_LINE = "SWELL_CONTAINED"
#: Processes and threads of a worker, those of its loaders included.
MAX_PIDS = 4096
PYTHON = "python3"
#: The job's own are added to them.
ENVIRON = {
    **DEFAULT_VARIABLES,
    **dict.fromkeys(THREAD_VARIABLES, "1"),
    **TORCH_VARIABLES,
    "HOME": "/tmp",  # noqa: S108 - the container's own
    "USER": "swell",  # its number need not be known there
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOrder:
    """One container."""

    name: str
    image: str
    mounts: Sequence[Mount]
    workdir: str
    gpus: Sequence[str]  #: UUIDs
    memory_bytes: int | None  #: None: no limit
    script: str  #: that its Python runs

    def words(self, engine: ContainerEngine) -> list[str]:
        """Return the words of the engine's command line, from `run` on.

        The container has the machine's network, and can change only what is mounted writable.
        """
        memory = ["--memory", str(self.memory_bytes), "--memory-swap", str(self.memory_bytes)]
        return [
            *("run", "--interactive", "--rm", "--pull", "never", "--name", self.name),
            *("--network", "host", "--shm-size", str(available_bytes() // 2)),
            *("--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--workdir", self.workdir),  # noqa: S108
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            *("--pids-limit", str(MAX_PIDS), *engine.user_words, *_core_words()),
            *(memory if self.memory_bytes is not None else []),
            *engine.gpu_words(self.gpus),
            *(word for name, value in ENVIRON.items() for word in ("--env", f"{name}={value}")),
            *(word for mount in self.mounts for word in mount.words(engine)),
            *("--entrypoint", PYTHON, self.image, self.script),
        ]


def _core_words() -> tuple[str, ...]:
    """The cores that the agent keeps to, where these are not all: containers are none of its children."""
    own = os.sched_getaffinity(0)
    return () if len(own) == os.cpu_count() else ("--cpuset-cpus", ",".join(map(str, sorted(own))))


def become(program: str, arguments: list[str]) -> None:
    """Become the engine's program. Its input is `FIRST_LINE`, and has no end while it lives: it inherits both
    ends of that pipe.
    """
    line = os.environ.pop(FIRST_LINE).encode() + b"\n"
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, max(len(line), 1 << 16))
    os.write(writing, line)
    os.dup2(reading, 0)
    os.set_inheritable(writing, True)
    os.execv(program, [program, *arguments])  # noqa: S606 - its words are a list
