"""What a submission needs on this machine before it is a job: an interpreter that can train, and its code."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from swell import __version__
from swell.api.fields import InvalidField, check_source, real_path
from swell.api.installed import how_to_install, lack_of_torch
from swell.api.intake_process import IntakeLimits, IntakeProcesses
from swell.api.submission import Submission
from swell.executors.local.containers.command import code_roots
from swell.executors.storage import storage_of
from swell.model.errors import InvalidJob, Unwritable
from swell.model.job import CodeSource, Elasticity, JobSpec
from swell.store.code_snapshot import CodeLimits, CodeNotFound
from swell.store.code_store import CodeStore, KeptCode
from swell.store.folder import StateFolder

log = logging.getLogger("swell.api")

#: Seconds that an interpreter may take to say what is installed for it.
ANSWER_WITHIN_S = 30.0
#: Interpreters that are remembered: a user may name any number of paths.
MOST_KNOWN = 100
#: Asked of another interpreter; torch takes seconds to import, and is not.
QUESTION = """
import importlib.util, json
known = {name: importlib.util.find_spec(name) is not None for name in ("torch", "swell")}
version = ""
if known["swell"]:
    import swell
    version = swell.__version__
print(json.dumps({"torch": known["torch"], "swell": version}))
"""


class SubmissionCheck:
    """Thread-safe.

    Args:
        workdirs: folders in which users must have what they submit; none: they may name any.
    """

    def __init__(self, folder: StateFolder, limits: CodeLimits, workdirs: Sequence[str] = ()) -> None:
        self._folder = folder.path
        self.processes = IntakeProcesses(IntakeLimits.of(limits))
        self._store = CodeStore(folder.path, limits, self.processes.read_snapshot)
        self.discard = self._store.discard  #: what was kept, if no job came of it
        self._workdirs = tuple(workdirs)

    def prepare(
        self, submission: Submission, spec: JobSpec, *, is_owners: bool
    ) -> tuple[JobSpec, KeptCode | None]:
        """The request with its code as it is now, and that code if it is a copy.

        Raises:
            InvalidJob: its script cannot run, its code cannot be kept, its interpreter cannot train, or users
                may not name its folders.
            Unwritable: its code cannot be kept, for the disk is full.
        """
        roots = () if is_owners else self._workdirs
        workdir = real_path("workdir", spec.workdir, roots)
        script = None if submission.script is None else real_path("script", spec.entry, roots)
        if spec.python and not spec.image:  # only its container can say what is in it
            _check_interpreter(spec.python, os.stat(spec.python).st_mtime_ns)
        elif not spec.image and (lack := lack_of_torch()):
            raise InvalidJob(lack)
        has_our_python = not (spec.python or spec.image)
        if submission.script is not None and has_our_python:
            check_source(spec.entry, spec.elasticity is Elasticity.LIVE, self.processes.script_fault)
        if spec.image:
            code_roots(spec, self._folder, storage_of(self._folder))
        if submission.code is CodeSource.LIVE:
            return spec, None
        try:
            kept = self._store.take(workdir, script)
        except CodeNotFound as error:
            raise InvalidField("code", str(error)) from error
        except OSError as error:
            why = f"the code of job {spec.name!r} cannot be stored: {error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Unwritable(f"{why}; make room on its disk, then submit it again") from error
            raise InvalidJob(why) from error
        return msgspec.structs.replace(spec, code=kept.digest), kept

    def bind(self, job_id: str, spec: JobSpec) -> None:
        """The request is a job now."""
        try:
            if spec.code:
                self._store.bind(job_id, spec.code)
        except OSError as error:  # the job is in the journal: its agent does so before its first process
            log.warning("the code of job %s is not bound to it yet: %s", job_id, error)


@lru_cache(maxsize=MOST_KNOWN)
def _check_interpreter(python: str, changed_ns: int) -> None:
    """Raises InvalidField, and looks again the next time: a refusal is not remembered."""
    if lack := _ask(python):
        raise InvalidField("python", lack)


def _ask(python: str) -> str:
    """What is wrong with an interpreter; empty if nothing is."""
    try:
        asked = subprocess.run(
            [python, "-P", "-c", QUESTION],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_WITHIN_S,
        )
        known = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"{python} does not say what is installed for it ({error}); name Python 3.11 or newer"
    for name in ("torch", "swell"):
        if not known[name]:
            return how_to_install(name, python)
    if known["swell"] != __version__:
        return (
            f"{python} has swell {known['swell']} and the platform is {__version__}; install the same version"
        )
    return ""
