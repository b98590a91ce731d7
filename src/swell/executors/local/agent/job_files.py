"""The files of a job before workers of it start on a host: its folder, its code, its checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path

from swell.executors.hosts.messages import OpenRun, RunRefused
from swell.executors.local.agent.job_code import FOLDER, place_code, place_in
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import TRIAL, WORKER, next_number
from swell.executors.storage import CHECKPOINTS, job_folder
from swell.model.code import CodeTree, is_within
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire import environ
from swell.wire.lease_end import LEASE_FILE


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is on this host."""

    folder: Path
    first_worker: int  #: no worker of the kind had this number, or a higher one
    workdir: str  #: where its workers run
    entry: str  #: what they run
    environ: dict[str, str] = field(default_factory=dict)  #: what they are told besides

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS


def place_job(options: AgentOptions, order: OpenRun) -> JobPlace | RunRefused:
    """Make ready for workers of a run on the host with these options. Call it in the background."""
    spec, host = order.spec, options.joined_as
    on = f"host {host!r}" if host else "this machine"
    why = lack_of_needs(spec, on) or (_lack_of_paths(spec, on) if host else "")
    if why:
        return RunRefused(run=order.run, outcome=Outcome.LOST, why=why, is_lacking=True)
    try:
        folder = job_folder(options.storage_dir, order.job_id)
        (folder / CHECKPOINTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        tree = place_code(options.storage_dir, folder, spec)
        first = next_number(folder, TRIAL if order.is_trial else WORKER)
        if not host:
            return JobPlace(folder, first, spec.workdir, spec.entry)
        variables = {environ.AWAY: host, environ.LEASE: str(options.state_dir / LEASE_FILE)}
        workdir, entry = (spec.workdir, spec.entry) if tree is None else _away(tree, folder / FOLDER, spec)
        return JobPlace(folder, first, workdir, entry, variables)
    except ValueError as error:
        return RunRefused(run=order.run, outcome=Outcome.FAILED, why=str(error))
    except OSError as error:
        why = f"its folder cannot be used on {on}: {error}"
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
