"""What a submission needs on this machine before it is a job: an interpreter that can train, and its code."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from swell.api.fields import InvalidField
from swell.api.installed import lack_of_torch
from swell.api.intake_process import IntakeLimits, IntakeProcesses
from swell.api.submission import Submission
from swell.api.user_files import SubmittedFiles
from swell.api.user_list import OWNER
from swell.executors.local.containers.command import code_roots
from swell.executors.storage import storage_of
from swell.model.code import CodeLimits
from swell.model.errors import InvalidJob, Unwritable
from swell.model.job import CodeSource, Elasticity, JobSpec
from swell.store.code_snapshot import MIB, CodeNotFound, CodeTooLarge
from swell.store.code_store import CodeStore, CodeUploads, KeptCode
from swell.store.folder import StateFolder

log = logging.getLogger("swell.api")


class SubmissionCheck:
    """Thread-safe.

    Args:
        workdirs: folders in which users must have what they submit; none: they may name any.
        hosts_may_join: which may have programs on their `PATH` that this machine lacks.
    """

    def __init__(
        self,
        folder: StateFolder,
        limits: CodeLimits,
        workdirs: Sequence[str] = (),
        hosts_may_join: bool = False,
    ) -> None:
        self._folder = folder.path
        self.processes = IntakeProcesses(IntakeLimits.of(limits))
        self.limits = limits
        self._store = CodeStore(folder.path, limits)
        self.uploads = CodeUploads(folder.path, self._store, limits.code_total_mib * MIB)
        self._workdirs, self._hosts_may_join = tuple(workdirs), hosts_may_join

    def prepare(self, submission: Submission, spec: JobSpec, *, user: str) -> tuple[JobSpec, KeptCode | None]:
        """The request with its code as it is now, and that code if it is a copy.

        Args:
            user: who submits it; empty: the owner.

        Raises:
            InvalidJob: its script or command cannot run, its code cannot be kept, its interpreter cannot
                train, or users may not name its folders.
            Unwritable: its code cannot be kept, for the disk is full.
        """
        lacks_python = bool(spec.fixed or spec.image)  # only its container can say what is in it
        if not (lacks_python or spec.python) and (lack := lack_of_torch()):
            raise InvalidJob(lack)
        if spec.run_as and spec.uv and spec.python:  # the account of the platform would run it
            raise InvalidField(
                "python", "an environment (`uv`) of a user is of the platform's own; remove it"
            )
        program = spec.args[0] if spec.fixed and not (spec.image or spec.uv) else ""
        may_be_elsewhere = self._hosts_may_join and os.sep not in program
        image = (("image", spec.image),) if os.path.isabs(spec.image) else ()
        is_here = submission.uploaded is None
        if not is_here:
            self._check_upload(submission, spec, user or OWNER.name)
            may_be_elsewhere |= os.sep in program
        files = SubmittedFiles(
            workdir=spec.workdir if is_here else os.sep,
            script=spec.entry if submission.script is not None and is_here else "",
            is_live=spec.elasticity is Elasticity.LIVE,
            is_read=not (spec.python or spec.image),
            python=spec.python,
            program="" if may_be_elsewhere else program,
            path=dict(spec.env).get("PATH", os.environ.get("PATH", "")),
            seen=(*image, *(("mount", mount.source) for mount in spec.mounts)),
            roots=self._workdirs if user and is_here else (),
        )
        if spec.image and is_here:
            code_roots(spec, self._folder, storage_of(self._folder))
        real = self.processes.check_files(spec.run_as, files)
        if not is_here:
            return msgspec.structs.replace(spec, code=submission.uploaded), None
        if submission.code is CodeSource.LIVE or spec.fixed:  # a command finds its files where they are
            return spec, None
        with kept_code():
            read = partial(self.processes.read_snapshot, spec.run_as)
            kept = self._store.take_snapshot(real.workdir, real.script, read)
        return msgspec.structs.replace(spec, code=kept.digest), kept

    def _check_upload(self, submission: Submission, spec: JobSpec, user: str) -> None:
        """Raises InvalidField: the user has uploaded no such code, or not for this script and workdir."""
        tree = self.uploads.tree(submission.uploaded or "", user)
        if tree is None or spec.workdir != tree.roots[0]:
            raise InvalidField("uploaded", "there is no such code any more, or of another workdir; upload it")
        if submission.script is not None and spec.entry not in tree.files:
            raise InvalidField("script", f"{spec.entry} is not in the uploaded code; name one that is")

    def bind(self, job_id: str, spec: JobSpec) -> None:
        """The request is a job now."""
        try:
            if spec.code:
                self._store.bind(job_id, spec.code)
        except OSError as error:  # the job is in the journal: its agent does so before its first process
            log.warning("the code of job %s is not bound to it yet: %s", job_id, error)


@contextmanager
def kept_code() -> Iterator[None]:
    """Says why code cannot be kept. Raises InvalidJob, Unwritable; CodeTooLarge."""
    try:
        yield
    except CodeTooLarge:
        raise
    except CodeNotFound as error:
        raise InvalidField("code", str(error)) from error
    except OSError as error:
        why = f"the code of the job cannot be stored: {error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unwritable(f"{why}; make room on its disk, then submit it again") from error
        raise InvalidJob(why) from error
