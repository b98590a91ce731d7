"""The files of a job before workers of it start on a host: its folder, its code, its checkpoints.

Workers take their code from `jobs/ID/code`, which looks like the file system's root: what the snapshot has is
a copy at its own path below it, and other files of the same folders are links to the originals. So a path of
the code, relative to its own file, leads where it always led, on machines that have the originals. The first
host that needs the tree makes it, for all of them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path

from swell.executors.gang.host_messages import OpenRun, RunRefused
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.containers.engine import ContainerEngine, ContainerKind, engine_of
from swell.executors.local.logs.files import TRIAL, WORKER, next_number
from swell.executors.storage import CHECKPOINTS, job_folder
from swell.model.code import CodeFile, CodeTree, decode_tree, is_within, job_tree_path, object_path, tree_path
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire import environ
from swell.wire.lease_end import LEASE_FILE
from swell.wire.untrusted_files import is_own_folder

CODE_FOLDER = "code"
#: What is not whole yet is called so.
PARTIAL = f".{CODE_FOLDER}.partial-"
#: So many folders above those that were looked through have links too: scripts look into `../data`.
NUM_LEVELS_ABOVE = 3
#: A folder above with more entries is no folder of a project.
MAX_ENTRIES_ABOVE = 1000
UNLINKED = frozenset({"__pycache__"})


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is on this host."""

    folder: Path
    first_worker: int  #: no worker of the kind had this number, or a higher one
    workdir: str  #: where its workers run
    entry: str  #: what they run
    environ: dict[str, str] = field(default_factory=dict)  #: what they are told besides
    engine: ContainerEngine | None = None  #: runs their containers; None: they have none

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS


def place_job(options: AgentOptions, order: OpenRun) -> JobPlace | RunRefused:
    """Make ready for workers of a run on the host with these options. Call it in the background."""
    spec, host = order.spec, options.joined_as
    on = f"host {host!r}" if host else "this machine"
    why = lack_of_needs(spec, on) or (_lack_of_paths(spec, on) if host else "")
    try:
        engine = engine_of(options.containers) if spec.image else None
        if spec.image and engine is None:
            why = why or _lack_of_engine(options.containers, on)
        if why:
            return RunRefused(run=order.run, outcome=Outcome.LOST, why=why, is_lacking=True)
        folder = job_folder(options.storage_dir, order.job_id)
        (folder / CHECKPOINTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        tree = place_code(options.storage_dir, folder, spec)
        first = next_number(folder, TRIAL if order.is_trial else WORKER)
        if not host:
            return JobPlace(folder, first, spec.workdir, spec.entry, engine=engine)
        variables = {environ.AWAY: host, environ.LEASE: str(options.state_dir / LEASE_FILE)}
        workdir, entry = (
            (spec.workdir, spec.entry) if tree is None else _away(tree, folder / CODE_FOLDER, spec)
        )
        return JobPlace(folder, first, workdir, entry, variables, engine)
    except ValueError as error:
        return RunRefused(run=order.run, outcome=Outcome.FAILED, why=str(error))
    except OSError as error:
        why = f"its folder cannot be used on {on}: {error}; mend that, and the job goes on by itself"
        return RunRefused(run=order.run, outcome=Outcome.LOST, why=why)


def lack_of_needs(spec: JobSpec, on: str) -> str:
    """Why a host cannot run this job: a path that it needs is not there. Empty if all are."""
    missing = next((path for path in spec.needs if not os.path.exists(path)), None)
    if missing is None:
        return ""
    return f"{missing} is not on {on}, and the job needs it (`needs`); mount it there, or correct the path"


def _lack_of_paths(spec: JobSpec, on: str) -> str:
    """Live code has the same paths on every host; so has an interpreter."""
    if spec.python and not (os.path.isfile(spec.python) and os.access(spec.python, os.X_OK)):
        return (
            f"its interpreter {spec.python} (`python`) is no program on {on}; install it there under the "
            "same path, or leave `python` out: then it is the one that Swell runs with there"
        )
    if spec.image and not os.path.isdir(spec.workdir):
        return (
            f"its workdir {spec.workdir} is not on {on}, and its container shows it; use a path that all "
            "hosts have"
        )
    if spec.code:
        return ""
    script = spec.entry if os.path.isabs(spec.entry) else ""
    for path, is_there in ((spec.workdir, os.path.isdir), (script, os.path.isfile)):
        if path and not is_there(path):
            return (
                f"{path} is not on {on}; with `code: live` it must have the same path on every host: mount "
                "it there, or submit with `code: snapshot`"
            )
    return ""


def _lack_of_engine(choice: ContainerKind, on: str) -> str:
    """Why a host without an engine cannot run a job in a container. Raises ValueError: no other one can."""
    if choice is ContainerKind.OFF:
        raise ValueError(
            "the job names an image, and this platform runs no containers (`swell up --containers off`)"
        )
    names = "docker or podman" if choice is ContainerKind.AUTO else choice
    return f"{on} has no program that runs containers, and the job names an image: install {names} there"


def _away(tree: CodeTree, code: Path, spec: JobSpec) -> tuple[str, str]:
    """Return where workers run, and what: in the job's own folder if it is here, else in the snapshot."""
    if spec.image and (missing := next((root for root in tree.roots if not os.path.isdir(root)), None)):
        raise FileNotFoundError(ENOENT, "its container shows this folder, which is not there", missing)
    real = os.path.realpath(spec.workdir)
    is_here = os.path.isdir(real) and real == tree.roots[0]
    return spec.workdir if is_here else str(place_in(code, tree.roots[0])), _entry(tree, code, spec)


def _entry(tree: CodeTree, code: Path, spec: JobSpec) -> str:
    """The script's copy. The snapshot has it by its name without links, which may be another machine's.

    Raises:
        ValueError: the snapshot has it under none of the names that it may have.
    """
    if not os.path.isabs(spec.entry):
        return spec.entry
    names = [spec.entry, os.path.join(tree.roots[-1], os.path.basename(spec.entry))]
    names.append(os.path.normpath(os.path.join(tree.roots[0], os.path.relpath(spec.entry, spec.workdir))))
    for name in names:
        found = os.path.realpath(place_in(code, name))
        if os.path.isfile(found) and is_within(found, os.path.realpath(code)):
            return found
    raise ValueError(
        f"the snapshot of its code does not hold {spec.entry} under a name that this host can tell; submit "
        "the script by its path without symbolic links"
    )


# ---------------------------------------------------------------- the tree of its code
def place_code(storage: Path, job_dir: Path, spec: JobSpec) -> CodeTree | None:
    """Make the job's tree with links to the originals, if it is to have one and has none.

    Several hosts may do so at the same time: the first one that has it whole gives it its name.

    Returns:
        The manifest of its snapshot; None: there is none, or it is gone and was not needed.

    Raises:
        ValueError: the snapshot is not there any more, or is damaged.
        OSError: it cannot be written.
    """
    if not spec.code:
        return None
    code, manifest = job_dir / CODE_FOLDER, tree_path(storage, spec.code)
    tree = decode_tree(manifest.read_bytes()) if manifest.exists() else None
    if os.path.lexists(code):
        if not is_own_folder(code):
            raise ValueError(f"{code} is no folder that Swell has made; remove it, and submit the job again")
        return tree
    if tree is None:
        raise ValueError(f"snapshot {spec.code[:12]} of its code is gone from {storage}; submit it again")
    with suppress(FileExistsError):  # the daemon has linked it, perhaps at this very moment
        os.link(manifest, job_tree_path(job_dir))
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=job_dir))
    try:
        _fill(partial, tree, storage)
        _link_originals(partial, tree)
        partial.rename(code)
    except OSError:
        if not is_own_folder(code):
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return tree


def _fill(partial: Path, tree: CodeTree, storage: Path) -> None:
    children = tree.children()
    for folder in children:
        place_in(partial, folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, file in tree.files.items():
        _copy(object_path(storage, file.digest), place_in(partial, path), file)
    for path, target in tree.links.items():
        place_in(partial, path).symlink_to(target)


def _link_originals(partial: Path, tree: CodeTree) -> None:
    children = tree.children()
    for root in tree.roots:
        for folder in (folder for folder in children if is_within(folder, root)):
            _link(partial, folder, _names(folder))
        for above in list(Path(root).parents)[:-1][:NUM_LEVELS_ABOVE]:
            if len(names := _names(str(above))) <= MAX_ENTRIES_ABOVE:
                _link(partial, str(above), names)


def _names(folder: str) -> list[str]:
    """Empty of a folder that is gone by now, or may not be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(partial: Path, folder: str, names: list[str]) -> None:
    """Link the entries of a folder that the snapshot does not have."""
    for name in names:
        link = place_in(partial, os.path.join(folder, name))
        if name not in UNLINKED and not os.path.lexists(link):
            link.symlink_to(os.path.join(folder, name))


def place_in(code: Path, path: str) -> Path:
    """Return where a path of the machine lies in the tree `code`."""
    return code / path.lstrip("/")


def _copy(kept: Path, to: Path, file: CodeFile) -> None:
    """A copy that the job may change: with a link to what is kept, it would change other jobs' code."""
    try:
        content = kept.read_bytes()
    except FileNotFoundError:
        content = b""
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise ValueError(f"{kept}, a part of the snapshot of its code, is gone or damaged; submit it again")
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if file.is_executable else 0o600)
    with os.fdopen(descriptor, "wb") as copy:
        copy.write(content)
