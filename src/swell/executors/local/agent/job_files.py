"""The files of a job before workers of it start on a host: its folder, its code, its checkpoints.

Workers take their code from `jobs/ID/code`, which looks like the file system's root: what the snapshot has is
a copy at its own path below it, and other files of the same folders are links to the originals, unless it was
uploaded from another machine. A worker that runs as a user makes these links itself, to what that user may
list. So a path of the code, relative to its own file, leads where it always led, on machines that have the
originals. The first host that needs the tree makes it, for all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path

from swell.executors.gang.host_messages import OpenRun, RunRefused
from swell.executors.local.accounts.client import AccountRefused, give, make_work
from swell.executors.local.accounts.messages import CODE_MODE
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.containers.engine import ContainerEngine, ContainerKind, engine_of
from swell.executors.local.environments import CLOSED, OPEN, found_first, uv_words
from swell.executors.local.logs.files import TRIAL, WORKER, next_number
from swell.executors.storage import CHECKPOINTS, is_uploaded, job_folder
from swell.model.code import (
    CodeFile,
    CodeTree,
    decode_tree,
    is_within,
    job_tree_path,
    object_path,
    tree_path,
)
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire import environ
from swell.wire.code_links import link_originals, place_in
from swell.wire.job_inputs import NO_INPUTS, read_inputs
from swell.wire.lease_end import LEASE_FILE
from swell.wire.untrusted_files import is_own_folder

CODE_FOLDER = "code"
#: See `EnvironmentSet.made`.
Made = Callable[[str, str, str], str]
#: What is not whole yet is called so.
PARTIAL = f".{CODE_FOLDER}.partial-"


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is on this host."""

    folder: Path
    work: Path  #: where its processes write: the folder itself, or the one in it that is a user's
    first_worker: int  #: no worker of the kind had this number, or a higher one
    workdir: str  #: where its workers run
    entry: str  #: what they run
    environ: dict[str, str] = field(default_factory=dict, repr=False)  #: what they are told besides
    engine: ContainerEngine | None = None  #: runs their containers; None: they have none
    python: str = ""  #: their interpreter; empty: this one


def place_job(options: AgentOptions, order: OpenRun, made: Made) -> JobPlace | RunRefused:
    """Make ready for workers of a run on the host with these options. Call it in the background."""
    spec, host = order.spec, options.joined_as
    on = f"host {host!r}" if host else "this machine"
    try:
        is_far = is_uploaded(options.storage_dir, spec.code)
        why = lack_of_needs(spec, on) or (_lack_of_paths(spec, on, is_far) if host else "")
        engine = engine_of(options.containers) if spec.image else None
        if spec.image and engine is None:
            why = why or _lack_of_engine(options.containers, on)
        if spec.uv and not uv_words():
            why = why or f"{on} has no program uv, which makes the job's environment; `pip install uv` there"
        if why:
            return RunRefused(run=order.run, outcome=Outcome.LOST, why=why, is_lacking=True)
        folder = work = job_folder(options.storage_dir, order.job_id)
        (folder if spec.run_as else folder / CHECKPOINTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        if spec.run_as:
            work = make_work(folder, spec.run_as)
        tree = place_code(options.storage_dir, folder, spec)
        first = next_number(work, TRIAL if order.is_trial else WORKER)
        is_closed = bool(spec.run_as and spec.image)  # its container sees no folder that its user could swap
        if is_closed and engine is not None and engine.name != ContainerKind.DOCKER:
            raise ValueError(
                f"the job names an image and runs as a user, and {engine.name} would run it as the account "
                "of the platform; use docker (`swell up --containers docker`)"
            )
        inputs, python = read_inputs(folder) if spec.secrets or spec.uv else NO_INPUTS, spec.python
        variables = dict(inputs.variables)
        if tree is not None and spec.run_as and not (is_far or spec.image):
            variables[environ.LINKED] = json.dumps(tree.roots)
        if spec.uv:
            python = made(inputs.requirements, spec.python, CLOSED if spec.run_as else OPEN)
            variables |= found_first(os.path.dirname(python), dict(spec.env) | variables)
        if not (host or is_closed or is_far):
            return JobPlace(folder, work, first, spec.workdir, spec.entry, variables, engine, python)
        if host or is_far:
            variables[environ.AWAY] = host or platform.node()
        if host:
            variables[environ.LEASE] = str(options.state_dir / LEASE_FILE)
        workdir, entry = (
            (str(work) if is_closed else spec.workdir, spec.entry)
            if tree is None
            else _away(tree, folder / CODE_FOLDER, spec)
        )
        return JobPlace(folder, work, first, workdir, entry, variables, engine, python)
    except (AccountRefused, ConnectionError) as error:  # another host may have this user, or a helper
        return RunRefused(run=order.run, outcome=Outcome.LOST, why=f"{error} ({on})", is_lacking=bool(host))
    except ValueError as error:
        return RunRefused(run=order.run, outcome=Outcome.FAILED, why=str(error))
    except OSError as error:
        why = f"its folder cannot be used on {on}: {error}; mend that, and the job goes on by itself"
        return RunRefused(run=order.run, outcome=Outcome.LOST, why=why)


def lack_of_needs(spec: JobSpec, on: str) -> str:
    """Why a host cannot run this job: a path that it needs is not there. Empty if all are."""
    paths = (*spec.needs, *(mount.source for mount in spec.mounts))
    missing = next((path for path in paths if not _is_there(path)), None)
    if missing is None:
        return ""
    field = "needs" if missing in spec.needs else "mount"
    return f"{missing} is not on {on}, and the job needs it (`{field}`); mount it there, or correct the path"


def _is_there(path: str) -> bool:
    """Whether there is something of this name, as far as this account may look."""
    try:
        os.stat(path)
    except PermissionError:  # a user may have closed the folder, whose job sees more
        return True
    except OSError:
        return False
    return True


def _lack_of_paths(spec: JobSpec, on: str, is_far: bool) -> str:
    """Live code has the same paths on every host; so has an interpreter."""
    is_program = os.path.isfile(spec.python) and os.access(spec.python, os.X_OK)
    if spec.python and not (_is_there(spec.python) if spec.run_as else is_program):
        return (
            f"its interpreter {spec.python} (`python`) is no program on {on}; install it there under the "
            "same path, or leave `python` out: then it is the one that Swell runs with there"
        )
    if spec.image and not is_far and not os.path.isdir(spec.workdir):
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
    names = "docker, podman or apptainer" if choice is ContainerKind.AUTO else choice
    return f"{on} has no program that runs containers, and the job names an image: install {names} there"


def _away(tree: CodeTree, code: Path, spec: JobSpec) -> tuple[str, str]:
    """Return where workers run, and what: in the job's own folder if it is here, else in the snapshot."""
    if tree.uploaded_by or (spec.run_as and spec.image):
        return str(place_in(code, tree.roots[0])), _entry(tree, code, spec)
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
        if not (is_own_folder(code) or spec.run_as):  # then only this account writes above it
            raise ValueError(f"{code} is no folder that Swell has made; remove it, and submit the job again")
        return tree
    if tree is None:
        raise ValueError(f"snapshot {spec.code[:12]} of its code is gone from {storage}; submit it again")
    with suppress(FileExistsError):  # the daemon has linked it, perhaps at this very moment
        os.link(manifest, job_tree_path(job_dir))
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=job_dir))
    try:
        _fill(partial, tree, storage)
        if not (tree.uploaded_by or spec.run_as):
            link_originals(partial, tree.roots)
        if spec.run_as:
            give(partial, spec.run_as, CODE_MODE)
        partial.rename(code)
    except OSError:
        if not code.is_dir():
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
