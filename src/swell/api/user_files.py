"""Files of users, looked at with their rights: what a submission names, and what a job has left."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from swell import __version__
from swell.api import fields
from swell.api.fields import InvalidField
from swell.api.installed import how_to_install
from swell.api.verbs import JobFile
from swell.executors.storage import CHECKPOINTS
from swell.model.errors import UnknownJob
from swell.wire.checkpoint_files import checkpoints_in
from swell.wire.untrusted_files import entries_below, open_regular

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


class SubmittedFiles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is to be looked at. Paths are absolute, and empty where there is nothing of the kind."""

    workdir: str
    script: str = ""
    is_live: bool = False  #: it calls Swell itself
    is_read: bool = False  #: it must be one that our interpreter can run
    python: str = ""
    program: str = ""  #: of a command
    path: str = ""  #: where a program is looked for
    seen: tuple[tuple[str, str], ...] = ()  #: field and path of what a container sees besides
    roots: tuple[str, ...] = ()  #: folders in which all but programs must be; none: anywhere

    def check(self) -> RealPaths:
        """Return where they are. Raises InvalidField: one of them cannot be used."""
        fields.check_files(self.script, self.workdir, self.python)
        workdir = fields.real_path("workdir", self.workdir, self.roots)
        script = fields.real_path("script", self.script, self.roots) if self.script else None
        for field, path in self.seen:
            fields.real_path(field, path, self.roots)
        if self.python:
            _check_interpreter(self.python, os.stat(self.python).st_mtime_ns)
        if self.script and self.is_read:
            fields.check_source(self.script, self.is_live)
        if self.program:
            fields.check_program(self.program, workdir, self.path)
        return RealPaths(workdir, script)


class RealPaths(msgspec.Struct, frozen=True, tag=True):
    """Where the names of a submission lead."""

    workdir: str
    script: str | None


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


# ---------------------------------------------------------------- what a job has left
#: Bytes of an answer; files that are listed, and names in a folder and below it that are looked at.
PIECE_BYTES, MOST_FILES, MOST_SEEN = 2 << 20, 5000, 100_000
#: What names of files begin with that a job has written where its copy of the code is.
WORKDIR = "workdir"


class LeftAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Files of a job, or a piece of one."""

    files: list[JobFile] = []
    piece: bytes = b""
    changed_ns: int = 0  #: when that file was written last


class LeftFiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The files of one job, for a process that may read them: the user's whose job it is."""

    top: str  #: the folder of the job
    folders: dict[str, str]  #: by what names of files in them begin with
    code: frozenset[str] = frozenset()  #: paths that are not listed
    wanted: str = ""  #: a name; empty: the list
    start: int = 0  #: of the piece of that file

    def read(self) -> LeftAnswer:
        """A piece of a file, empty at its end; or the list. Raises OSError."""
        if not self.wanted:
            return LeftAnswer(files=self._listed())
        kind, _, rest = self.wanted.partition("/")
        descriptor = open_regular(Path(self.folders[kind], rest), root=Path(self.top))
        with os.fdopen(descriptor, "rb") as file:
            file.seek(self.start)
            return LeftAnswer(piece=file.read(PIECE_BYTES), changed_ns=os.fstat(descriptor).st_mtime_ns)

    def _listed(self) -> list[JobFile]:
        """Checkpoints, newest first, then other files by name."""
        found = list[JobFile]()
        for kind, name in self.folders.items():
            folder = Path(name)
            saved = [path for _, path in checkpoints_in(folder)] if kind == CHECKPOINTS else []
            in_saved = [one for path in saved for one in (_below(path) if path.is_dir() else [path])]
            for path in in_saved if kind == CHECKPOINTS else _below(folder):
                if str(path) in self.code or len(found) == MOST_FILES:
                    continue
                with suppress(OSError):  # it is gone, or no regular file
                    with os.fdopen(open_regular(path, root=Path(self.top)), "rb") as file:
                        state = os.fstat(file.fileno())
                    name = f"{kind}/{path.relative_to(folder)}"
                    found.append(JobFile(name=name, num_bytes=state.st_size, changed_ns=state.st_mtime_ns))
        return found

    def check(self) -> None:
        """Raises UnknownJob: what is wanted can be none of these files."""
        kind, _, rest = self.wanted.partition("/")
        if not self.wanted:
            return
        if kind not in self.folders or ".." in Path(rest).parts or "\0" in rest or rest.startswith("/"):
            raise UnknownJob(
                f"the job has no file {self.wanted!r:.200}; `swell download JOB --list` lists them"
            )


def _below(folder: Path) -> list[Path]:
    """Files below a folder, in the order of their names; what lies behind links is none of it."""
    paths = sorted(entry.path for entry in islice(entries_below(folder), MOST_SEEN))
    return [Path(path) for path in paths if "/__pycache__/" not in path]
