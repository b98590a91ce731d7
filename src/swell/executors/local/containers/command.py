"""How a process that the zygote has forked becomes the program that runs one worker in a container."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

import swell
from swell.executors.local.containers import bootstrap
from swell.executors.local.containers.engine import ContainerEngine, EngineUnavailable
from swell.executors.local.zygote.client import OF_WORKERS
from swell.executors.local.zygote.messages import Fork
from swell.executors.storage import is_uploaded, work_folder
from swell.model.code import decode_tree, is_within, tree_path
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec, Mount
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
    "HOME": "/tmp",  # noqa: S108 - the container's own
    "USER": "swell",  # its number need not be known there
}
#: Inside, of the platform's packages.
PACKAGES = "/run/swell/packages"
#: Of the job, below its folder: the one for what it wants to keep.
OUTPUT_FOLDER = "output"
#: The container has its own of these.
UNMOUNTABLE = frozenset({"/", "/tmp", "/run", "/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/lib"})  # noqa: S108
#: Nothing within these is mounted: they lead to other processes, and to what serves them.
OF_MACHINE = ("/proc", "/run", "/sys", "/var/run")
#: In a job's folder, and not for the job to change.
SEALED = ("code", "code.json")


def mount_words(engine: ContainerEngine, mount: Mount) -> tuple[str, str]:
    """Options of the engine that mount it. Raises ValueError: it cannot."""
    if not mount.source and engine.is_apptainer:
        raise ValueError(
            f"a folder of its code contains {mount.target}, and Apptainer cannot hide that from it"
        )
    if not mount.source:  # Podman would copy into it what it is to hide
        return "--tmpfs", f"{mount.target}:mode=755{',notmpcopyup' if engine.is_podman else ''}"
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}"]
    return "--mount", ",".join(map(_quoted, fields if mount.is_writable else [*fields, "readonly"]))


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
    mounted = [word for mount in mounts for word in mount_words(engine, mount)]
    program = f"{PACKAGES}/0/{Path(bootstrap.__file__).relative_to(_own_folder())}"
    if engine.is_apptainer:  # its variables are those of the program
        alone = ("exec", "--containall", "--no-home", "--no-privs", *(("--nv",) if gpus else ()))
        return [*alone, "--pwd", workdir, *mounted, spec.image, "python3", program]
    memory = str(spec.memory_bytes)
    own_cores = os.sched_getaffinity(0)  # containers are no children of this process
    return [
        *("run", "--interactive", "--rm", "--pull", "never", "--name", name),
        *("--network", "host", "--shm-size", str(SHARED_BYTES)),
        *("--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--workdir", workdir),  # noqa: S108
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        *("--pids-limit", str(MAX_PIDS), *engine.user_words(spec.run_as)),
        *(
            ("--cpuset-cpus", ",".join(map(str, sorted(own_cores))))
            if len(own_cores) < (os.cpu_count() or 0)
            else ()
        ),
        *(("--memory", memory, "--memory-swap", memory) if spec.memory_bytes is not None else ()),
        *engine.gpu_words(gpus),
        *(word for name, value in _variables(spec).items() for word in ("--env", f"{name}={value}")),
        *("--env", bootstrap.ORDER),  # its value is the program's own: all users see the command line
        *mounted,
        *("--entrypoint", "python3", spec.image),
        program,
    ]


def _variables(spec: JobSpec) -> dict[str, str]:
    """Those that the interpreter in the container starts with."""
    return ENVIRON if spec.fixed else ENVIRON | OF_WORKERS


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
        work = work_folder(told.folder)
        packages, output = package_mounts(), work / OUTPUT_FOLDER  # which the container itself makes
        mounts = [*job_mounts(told.state_dir, told.folder, told.spec), *packages]
        words = run_words(engine, told.name, told.spec, mounts, told.worker.workdir, told.gpus)
    except (EngineUnavailable, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return NO_CONTAINER if isinstance(error, ValueError) else ENGINE_FAILED
    worker = told.worker
    own = {environ.OUTPUT: "/tmp", environ.TRIAL: "1"} if told.is_trial else {environ.OUTPUT: str(output)}  # noqa: S108
    inside = {
        "version": swell.__version__,
        "abi": str(sysconfig.get_config_var("SOABI")),
        "packages": [mount.target for mount in packages],
        "is_command": told.spec.fixed is not None,
        "environ": ENVIRON | worker.environ | own,
        "call": worker.call,
        "entry": worker.entry,
        "args": worker.args,
    }
    given = {bootstrap.ORDER: msgspec.json.encode(inside).decode()}
    if engine.is_apptainer:
        given |= _variables(told.spec) | {environ.MARK: os.environ[environ.MARK]}
        given = {f"APPTAINERENV_{name}": value for name, value in given.items() if name != "HOME"}
    os.environ.update(given)
    # The program's input does not end while it lives: it has both ends of that pipe.
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.set_inheritable(writing, True)
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
    if spec.run_as:  # who could put another's folder, by a link, where one of their own was looked at
        found = set()
    roots = sorted(one for one in found if not any(is_within(one, other) for other in found - {one}))
    more = [Mount(os.path.realpath(one.source), one.target, one.is_writable) for one in spec.mounts]
    shown = [*(Mount(root, root) for root in roots), *more]
    pairs = [(mount.target, os.path.realpath(mount.source)) for mount in shown]
    own = {os.path.realpath(path) for path in (state_dir, storage)}
    hidden = {target + path[len(real) :] for target, real in pairs for path in own if is_within(path, real)}
    to_read = [folder / name for name in SEALED if spec.code and not (folder / name).is_symlink()]
    return [
        *shown,
        *(Mount("", path) for path in sorted(hidden)),
        Mount(str(work_folder(folder)), str(work_folder(folder)), is_writable=True),
        *(Mount(str(path), str(path)) for path in (*to_read, state_dir / LEASE_FILE) if path.exists()),
    ]


def code_roots(spec: JobSpec, state_dir: Path, storage: Path) -> set[str]:
    """Return the folders of a job's code, each as the job names it and with its links resolved.

    None of code that was uploaded from another machine: all of it is in the job's own folder.

    Raises:
        InvalidJob: a container cannot have one of these folders, or of the job's mounts.
    """
    if is_uploaded(storage, spec.code):
        return set()
    paths = [spec.workdir]
    if os.path.isabs(spec.entry):
        paths.append(os.path.dirname(spec.entry))
    try:
        paths += decode_tree(tree_path(storage, spec.code).read_bytes()).roots if spec.code else ()
    except (OSError, msgspec.DecodeError):
        pass  # its workers say what is wrong with its code
    roots = {form for path in paths for form in (os.path.normpath(path), os.path.realpath(path))}
    mounted = {path for one in spec.mounts for path in (one.target, one.source, os.path.realpath(one.source))}
    own = [os.path.realpath(path) for path in (state_dir, storage)]
    for path in sorted(roots | mounted):
        is_own = any(is_within(path, folder) for folder in own)
        if is_own or path in UNMOUNTABLE or any(is_within(path, folder) for folder in OF_MACHINE):
            what = "a mount" if path in mounted else "its code or its working directory"
            whose = "is of the platform" if is_own else "a container has of its own"
            raise InvalidJob(f"{what} is {path}, which {whose}; use a folder of the job's")
    for one in spec.mounts if spec.run_as else ():
        if not all(map(_is_open_and_fixed, Path(os.path.realpath(one.source)).parents)):
            raise InvalidJob(
                f"a mount is {one.source}, whose path a user could change, or may not follow; mount a folder "
                "in one of root's that all may enter"
            )
    return roots


def _is_open_and_fixed(folder: Path) -> bool:
    """Whether all users may follow a path through it, and only root can lead that elsewhere."""
    try:
        found = folder.stat()
    except OSError:
        return False
    return found.st_uid == 0 and not found.st_mode & 0o022 and bool(found.st_mode & 0o001)


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
