"""How a process that the zygote has forked becomes the program that runs one worker in a container."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import swell
from swell.executors.local.containers import bootstrap
from swell.executors.local.containers.engine import ContainerEngine, EngineUnavailable
from swell.executors.local.zygote.client import DEFAULT_VARIABLES, TORCH_VARIABLES
from swell.executors.local.zygote.messages import Fork
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.model.code import decode_tree, is_within, tree_path
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.wire import environ
from swell.wire.lease_end import LEASE_FILE

#: Called by the zygote's child with an order.
CALL = "swell.executors.local.containers.command:start"
#: Exit statuses without a worker: the engine fails, as it says so itself; the job can have no container.
ENGINE_FAILED, NO_CONTAINER = 125, 64
#: Processes and threads of a worker, those of its loaders included.
MAX_PIDS = 4096
#: Shared memory of a container at most: as Linux gives to a machine, half of its memory.
SHARED_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
#: The job's own are added to them.
ENVIRON = {
    **DEFAULT_VARIABLES,
    **dict.fromkeys(THREAD_VARIABLES, "1"),
    **TORCH_VARIABLES,
    "HOME": "/tmp",  # noqa: S108 - the container's own
    "USER": "swell",  # its number need not be known there
}
#: Inside, of the platform's packages.
PACKAGES = "/run/swell/packages"
#: Of the job, below its folder: the one for what it wants to keep.
OUTPUT_FOLDER = "output"
#: The container has its own of these.
UNMOUNTABLE = frozenset({"/", "/tmp", "/run", "/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/lib"})  # noqa: S108
#: In a job's folder, and not for the job to change.
SEALED = ("code", "code.json")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine; an empty `source` is an empty folder in memory."""

    source: str
    target: str
    is_writable: bool = False

    def words(self, engine: ContainerEngine) -> tuple[str, str]:
        """Options of the engine's `run`."""
        if not self.source:  # Podman would copy into it what it is to hide
            return "--tmpfs", f"{self.target}:mode=755{',notmpcopyup' if engine.is_podman else ''}"
        fields = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        return "--mount", ",".join(map(_quoted, fields if self.is_writable else [*fields, "readonly"]))


def _quoted(field: str) -> str:
    """The engines read a line of CSV."""
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field


def run_words(
    engine: ContainerEngine,
    name: str,
    spec: JobSpec,
    mounts: Iterable[Mount],
    workdir: str,
    gpus: Sequence[str],
) -> list[str]:
    """Return the words of the engine's command line for one worker, from `run` on.

    The container has the machine's network, and can change only what is mounted writable.
    """
    memory = str(spec.memory_bytes)
    own_cores = os.sched_getaffinity(0)  # containers are no children of this process
    return [
        *("run", "--interactive", "--rm", "--pull", "never", "--name", name),
        *("--network", "host", "--shm-size", str(SHARED_BYTES)),
        *("--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--workdir", workdir),  # noqa: S108
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        *("--pids-limit", str(MAX_PIDS), *engine.user_words()),
        *(
            ("--cpuset-cpus", ",".join(map(str, sorted(own_cores))))
            if len(own_cores) < (os.cpu_count() or 0)
            else ()
        ),
        *(("--memory", memory, "--memory-swap", memory) if spec.memory_bytes is not None else ()),
        *engine.gpu_words(gpus),
        *(word for name, value in ENVIRON.items() for word in ("--env", f"{name}={value}")),
        *("--env", bootstrap.ORDER),  # its value is the program's own: all users see the command line
        *(word for mount in mounts for word in mount.words(engine)),
        *("--entrypoint", "python3", spec.image),
        f"{PACKAGES}/0/{Path(bootstrap.__file__).relative_to(_own_folder())}",
    ]


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run in a container, and what of this machine it is to see."""

    engine: str
    name: str
    spec: JobSpec
    state_dir: Path
    folder: Path  #: of the job
    gpus: tuple[str, ...]
    is_trial: bool
    worker: Fork  #: the request for a worker outside


def start(order: str, arguments: list[str]) -> int:
    """Become the engine's program, in a process of its own. If that cannot be, say why; returns a status."""
    told = msgspec.json.decode(order, type=ContainerOrder, dec_hook=lambda kind, said: kind(said))
    engine = ContainerEngine(told.engine)
    try:
        engine.check_image(told.spec.image)
        packages, output = package_mounts(), told.folder / OUTPUT_FOLDER
        output.mkdir(mode=0o700, exist_ok=True)
        mounts = [*job_mounts(told.state_dir, told.folder, told.spec), *packages]
    except (EngineUnavailable, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return NO_CONTAINER if isinstance(error, ValueError) else ENGINE_FAILED
    worker = told.worker
    own = {environ.OUTPUT: "/tmp", environ.TRIAL: "1"} if told.is_trial else {environ.OUTPUT: str(output)}  # noqa: S108
    inside = {
        "environ": worker.environ | own,
        "call": worker.call,
        "entry": worker.entry,
        "args": worker.args,
    }
    os.environ[bootstrap.ORDER] = msgspec.json.encode(package_order(packages) | inside).decode()
    # The program's input does not end while it lives: it has both ends of that pipe.
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.set_inheritable(writing, True)
    words = run_words(engine, told.name, told.spec, mounts, worker.workdir, told.gpus)
    return os.execv(engine.program, [engine.program, *words])  # noqa: S606 - its words are a list


# ------------------------------------------------------------ what it sees of this machine's files
def job_mounts(state_dir: Path, folder: Path, spec: JobSpec) -> list[Mount]:
    """The job's folder to write in; its working directory, its code, and the lease of this machine to read.

    A state folder or a storage below one of these is hidden: they have the files of other jobs, and the
    platform's token.

    Raises:
        InvalidJob: a container cannot have one of these folders.
    """
    storage = folder.parent.parent
    found = code_roots(spec, state_dir, storage)
    roots = sorted(one for one in found if not any(is_within(one, other) for other in found - {one}))
    pairs = [(root, os.path.realpath(root)) for root in roots]
    own = {os.path.realpath(path) for path in (state_dir, storage)}
    hidden = {root + path[len(real) :] for root, real in pairs for path in own if is_within(path, real)}
    to_read = [folder / name for name in SEALED if spec.code and not (folder / name).is_symlink()]
    return [
        *(Mount(root, root) for root in roots),
        *(Mount("", path) for path in sorted(hidden)),
        Mount(str(folder), str(folder), is_writable=True),
        *(Mount(str(path), str(path)) for path in (*to_read, state_dir / LEASE_FILE) if path.exists()),
    ]


def code_roots(spec: JobSpec, state_dir: Path, storage: Path) -> set[str]:
    """Return the folders of a job's code, each as the job names it and with its links resolved.

    Raises:
        InvalidJob: a container cannot have one of these folders.
    """
    paths = [spec.workdir]
    if os.path.isabs(spec.entry):
        paths.append(os.path.dirname(spec.entry))
    try:
        paths += decode_tree(tree_path(storage, spec.code).read_bytes()).roots if spec.code else ()
    except (OSError, msgspec.DecodeError):
        pass  # its workers say what is wrong with its code
    roots = {form for path in paths for form in (os.path.normpath(path), os.path.realpath(path))}
    for root in sorted(roots):
        is_own = any(is_within(root, os.path.realpath(path)) for path in (state_dir, storage))
        if is_own or root in UNMOUNTABLE:
            whose = "is of the platform" if is_own else "a container has of its own"
            raise InvalidJob(
                f"its code or its working directory is {root}, which {whose}; use a folder of the job's"
            )
    return roots


def _own_folder() -> str:
    """The folder from which this interpreter imports Swell."""
    return str(Path(swell.__file__).parents[1])


def package_mounts() -> list[Mount]:
    """Folders from which this interpreter imports Swell and what is installed, but the standard library's."""
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    folders = dict.fromkeys(
        os.path.abspath(path) for path in (_own_folder(), *sys.path) if os.path.isdir(path)
    )
    found = [path for path in folders if path not in standard and not path.endswith("lib-dynload")]
    return [Mount(source, f"{PACKAGES}/{number}") for number, source in enumerate(found)]


def package_order(packages: Iterable[Mount]) -> dict[str, object]:
    """What `bootstrap` is told of the platform's packages: which interpreter they fit, and where they are."""
    return {
        "version": swell.__version__,
        "abi": str(sysconfig.get_config_var("SOABI")),
        "packages": [mount.target for mount in packages],
    }
