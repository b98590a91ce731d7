"""What a container is started with, as words of the engine's command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.executors.local.containers.engine import ContainerEngine
from swell.executors.local.containers.mounts import Mount
from swell.executors.local.limits.allocation import available_bytes
from swell.executors.local.zygote.place import DEFAULT_VARIABLES, TORCH_VARIABLES
from swell.executors.local.zygote.process import THREAD_VARIABLES

#: Processes and threads of a gang, those of its loaders included.
MAX_PIDS = 4096
PYTHON = "python3"
#: Of every process; the job's own are added to each worker's.
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
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]
    environ: Mapping[str, str]
    limit_words: tuple[str, ...]  #: options about CPU and memory
    arguments: tuple[str, ...]  #: of its Python

    @property
    def limits_memory(self) -> bool:
        return "--memory" in self.limit_words

    def words(self, engine: ContainerEngine) -> list[str]:
        """Return the words of the engine's command line, from `run` on.

        The container has no network but a loopback device, and can change only what is mounted writable.
        """
        return [
            *("run", "--detach", "--rm", "--pull", "never", "--name", self.name),
            *("--network", "none", "--hostname", "localhost", "--shm-size", str(_half_of_memory())),
            *("--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--workdir", "/tmp"),  # noqa: S108
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            *("--pids-limit", str(MAX_PIDS)),
            *("--stop-signal", "SIGKILL"),  # a first process ignores any other that it does not handle
            *engine.user_words,
            *self.limit_words,
            *(word for name, value in self.labels.items() for word in ("--label", f"{name}={value}")),
            *(
                word
                for name, value in (ENVIRON | dict(self.environ)).items()
                for word in ("--env", f"{name}={value}")
            ),
            *(word for mount in self.mounts for word in mount.words(engine)),
            *("--entrypoint", PYTHON, self.image, *self.arguments),
        ]


def _half_of_memory() -> int:
    """Bytes of what this process may use: what /dev/shm may hold outside."""
    return available_bytes() // 2
