"""What a host does before workers of a run start, where the job's files are another machine's."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import ENOENT
from pathlib import Path

from swell.executors.code_tree import read_tree
from swell.executors.hosts.file_messages import (
    CodeContent,
    CodeManifest,
    JobCheckpoint,
    JobFilesFound,
    JobFilesRequest,
    NamedFile,
)
from swell.executors.hosts.messages import FromHost, OpenRun
from swell.executors.local.agent.job_code import FOLDER, place_copies
from swell.executors.local.agent.job_files import JobPlace, Opening, OpeningRefusal, lack_of_needs
from swell.executors.local.files.background import Background
from swell.executors.local.files.fetches import Fetches
from swell.executors.local.files.host_checkpoints import newest_name
from swell.executors.local.files.incoming import Cause, TransferFailure
from swell.executors.local.files.places import CHECKPOINTS, digest_of, place_of
from swell.executors.local.logs.files import TRIAL, WORKER, job_folder, next_number
from swell.model.code import CodeTree
from swell.model.event import Outcome
from swell.model.job import JobSpec
from swell.wire import environ
from swell.wire.checkpoint_files import order_in
from swell.wire.lease_end import LEASE_FILE

#: What comes damaged is asked for again so often: the disk that it is read from may be bad.
NUM_TRIES = 3


class RunOpening:
    """Carries out one `OpenRun`: looks at the host, asks for what is missing, makes the tree of the code."""

    def __init__(
        self,
        state_dir: Path,
        host: str,
        order: OpenRun,
        opening: Opening,
        say: Callable[[FromHost], None],
        fetches: Fetches,
        background: Background,
    ) -> None:
        #: Called before the end is told: whether anyone still waits for it.
        self.ended: Callable[[], bool] = lambda: True
        self._state_dir, self._host, self._order, self._opening = state_dir, host, order, opening
        self._say, self._fetches, self._background = say, fetches, background
        self._spec = order.spec
        self._first_worker = 0
        self._damaged: tuple[str, ...] = ()
        self._missing: set[NamedFile] = set()
        self._num_tries = 0

    def begin(self) -> None:
        self._then(lambda: _look(self._state_dir, self._host, self._order), self._ask)

    # ------------------------------------------------------------ what the controller has
    def _ask(self) -> None:
        self._say(
            JobFilesRequest(
                run=self._order.run,
                job_id=self._order.job_id,
                is_trial=self._order.is_trial,
                wants_checkpoint=not (self._order.is_trial or self._order.is_joining),
                damaged=self._damaged,
            )
        )

    def found(self, found: JobFilesFound) -> None:
        """The answer of the controller. The newest checkpoint comes first: while the code comes it may go."""
        if found.why_not:
            self._refuse(Outcome.LOST, found.why_not)
            return
        self._first_worker = found.first_worker
        if not found.checkpoint:
            self._fetch_code()
            return
        file = JobCheckpoint(job_id=self._order.job_id, name=found.checkpoint)
        try:
            place = place_of(self._state_dir, file)
        except ValueError as error:
            self._refuse(Outcome.LOST, str(error))
            return
        if not _is_newer(place, newest_name(place.parent)):
            self._fetch_code()
            return
        self._fetches.fetch(file, lambda failure: self._checkpoint_came(file, failure))

    def _checkpoint_came(self, file: JobCheckpoint, failure: TransferFailure | None) -> None:
        """One that has gone meanwhile was pushed out by a newer one."""
        self._num_tries += 1
        if failure is None:
            self._num_tries = 0
            self._fetch_code()
        elif failure.cause in (Cause.DISK, Cause.GIVEN_UP) or self._num_tries >= NUM_TRIES:
            self._refuse(Outcome.LOST, failure.why)
        else:
            self._damaged += (file.name,)
            self._ask()

    # ------------------------------------------------------------ code
    def _fetch_code(self) -> None:
        if not self._spec.code or (job_folder(self._state_dir, self._order.job_id) / FOLDER).is_dir():
            self._place()
        elif read_tree(self._state_dir, self._spec.code) is None:
            file = CodeManifest(digest=self._spec.code)
            self._fetches.fetch(file, lambda failure: self._code_came(file, failure, self._fetch_contents))
        else:
            self._fetch_contents()

    def _fetch_contents(self) -> None:
        self._background(lambda: _lacking(self._state_dir, self._spec.code), self._fetch_lacking)

    def _fetch_lacking(self, lacking: set[NamedFile]) -> None:
        self._missing = set(lacking)
        if not lacking:
            self._place()
        for file in sorted(lacking, key=repr):
            self._fetches.fetch(file, lambda failure, file=file: self._content_came(file, failure))  # type: ignore[misc]

    def _content_came(self, file: NamedFile, failure: TransferFailure | None) -> None:
        def go_on() -> None:
            self._missing.discard(file)
            if not self._missing:
                self._place()

        if file in self._missing:  # else it is refused already
            self._code_came(file, failure, go_on)

    def _code_came(self, file: NamedFile, failure: TransferFailure | None, go_on: Callable[[], None]) -> None:
        if failure is None:
            go_on()
            return
        self._missing.clear()
        if failure.cause is Cause.MISSING:
            why = f"a part of its code is gone from the head ({failure.why}); submit it again"
            self._refuse(Outcome.FAILED, why)
        else:
            self._refuse(Outcome.LOST, failure.why)

    # ------------------------------------------------------------ the end
    def _place(self) -> None:
        def made(result: JobPlace | OpeningRefusal) -> None:
            if isinstance(result, OpeningRefusal):
                self._refuse_by(result)
            elif self.ended():
                self._opening.ready(result)

        self._background(lambda: _made(self._state_dir, self._host, self._order, self._first_worker), made)

    def _then(self, work: Callable[[], OpeningRefusal | None], go_on: Callable[[], None]) -> None:
        def settle(refusal: OpeningRefusal | None) -> None:
            if refusal is None:
                go_on()
            else:
                self._refuse_by(refusal)

        self._background(work, settle)

    def _refuse(self, outcome: Outcome, why: str) -> None:
        self._refuse_by(OpeningRefusal(outcome, why))

    def _refuse_by(self, refusal: OpeningRefusal) -> None:
        if self.ended():
            self._opening.refuse(refusal)


# ---------------------------------------------------------------- in the background
def _look(state_dir: Path, host: str, order: OpenRun) -> OpeningRefusal | None:
    """Why this host cannot run it, as far as that can be known before anything is sent."""
    spec, on = order.spec, f"host {host!r}"
    try:
        if spec.code:
            digest_of(CodeManifest(digest=spec.code))
        folder = job_folder(state_dir, order.job_id)
        (folder / CHECKPOINTS).mkdir(mode=0o700, parents=True, exist_ok=True)
    except ValueError as error:
        return OpeningRefusal(Outcome.FAILED, str(error))
    except OSError as error:
        return OpeningRefusal(Outcome.LOST, f"its folder cannot be made on {on}: {error}")
    why = lack_of_needs(spec, on) or _lack_of_paths(spec, on)
    return OpeningRefusal(Outcome.LOST, why, is_lacking=True) if why else None


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


def _lacking(state_dir: Path, code: str) -> set[NamedFile]:
    tree = read_tree(state_dir, code)
    if tree is None:
        return set()
    named = {CodeContent(digest=file.digest) for file in tree.files.values()}
    return {file for file in named if not _is_there(state_dir, file)}


def _is_there(state_dir: Path, file: CodeContent) -> bool:
    """What the manifest names may be no digest: then the fetch says so."""
    try:
        return place_of(state_dir, file).exists()
    except ValueError:
        return False


def _made(state_dir: Path, host: str, order: OpenRun, first_worker: int) -> JobPlace | OpeningRefusal:
    spec = order.spec
    try:
        folder = job_folder(state_dir, order.job_id)
        place_copies(state_dir, folder, spec)
        first = max(first_worker, next_number(folder, TRIAL if order.is_trial else WORKER))
        return _place_of_job(state_dir, folder, host, spec, first)
    except ValueError as error:
        return OpeningRefusal(Outcome.FAILED, str(error))
    except OSError as error:
        reason = f"{error.strerror} ({error.filename})"
        return OpeningRefusal(Outcome.LOST, f"its code cannot be placed on host {host!r}: {reason}")


def _place_of_job(state_dir: Path, folder: Path, host: str, spec: JobSpec, first: int) -> JobPlace:
    """The working directory is the job's own where this host has it too, and else that of the snapshot."""
    variables = {environ.AWAY: host, environ.LEASE: str(state_dir / LEASE_FILE)}
    tree = read_tree(state_dir, spec.code) if spec.code else None
    if tree is None:
        return JobPlace(folder, first, spec.workdir, spec.entry, variables)
    if spec.image and (missing := next((root for root in tree.roots if not os.path.isdir(root)), None)):
        raise FileNotFoundError(ENOENT, "its container shows this folder, which is not there", missing)
    code, real = folder / FOLDER, os.path.realpath(spec.workdir)
    workdir = spec.workdir if os.path.isdir(real) and real == tree.roots[0] else _within(code, tree.roots[0])
    return JobPlace(folder, first, workdir, _entry(tree, code, spec), variables)


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
        found = os.path.realpath(_within(code, name))
        if os.path.isfile(found) and f"{found}/".startswith(f"{os.path.realpath(code)}/"):
            return found
    raise ValueError(
        f"the snapshot of its code does not hold {spec.entry} under a name that this host can tell; submit "
        "the script by its path without symbolic links"
    )


def _within(code: Path, path: str) -> str:
    return str(code / path.lstrip("/"))


def _is_newer(checkpoint: Path, other: str) -> bool:
    """Than that of this name; empty: there is none."""
    return not other or order_in(checkpoint) > order_in(Path(other))
