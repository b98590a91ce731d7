"""The page of one job at `/jobs/ID`: its parts as they change, its files, and what can be done with it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from swell import __version__
from swell.api import words
from swell.api.identity import caller_of
from swell.api.openapi import answer, failure
from swell.api.page.history_page import hyperparameters
from swell.api.page.rows import changes_only, job_row
from swell.api.page.sessions import base_values
from swell.api.resubmission import is_undone
from swell.api.times import with_offset
from swell.api.user_list import ApiUser
from swell.api.verbs import Verb, Verbs
from swell.api.words import offer
from swell.executors.storage import CHECKPOINTS, work_folder
from swell.live.platform import Platform
from swell.model.code import CodeTree, decode_tree, object_path, tree_path
from swell.model.errors import UnknownJob
from swell.model.job import MOST_PRIORITY, Phase
from swell.model.option import Option, told_options
from swell.model.quantities import format_bytes
from swell.model.view import JobView, keeps_devices
from swell.store.folder import StateFolder
from swell.web.templating import render
from swell.wire.checkpoint_files import checkpoints_in, digest_in, num_bytes_of, open_checkpoint, order_in
from swell.wire.untrusted_files import read_regular

#: Jobs that are offered where an address names none.
MOST_CANDIDATES = 10
#: Changes of size that the curves mark, the newest.
MOST_SIZES = 200
#: What is told of a job's past at most, the newest.
MOST_STORIES = 300
#: Parts that the server alone renders, as the page is loaded and again as they change: ids of elements, and
#: names of the templates of what is in them.
PARTS = ("why", "promise", "resizes", "checkpoints", "actions", "facts", "story")


#: Rows of each list. The rest is counted.
MOST_CHECKPOINTS = 50
MOST_FILES = 300
#: A larger file of a snapshot is named, and not shown.
MOST_SHOWN_BYTES = 256 << 10


class JobPage:
    """The page of one job."""

    def __init__(self, control: Platform) -> None:
        self._control = control

    def routes(self) -> list[BaseRoute]:
        """Each runs in a thread of a pool."""
        return [
            Route("/jobs/{job_id}", self._show, methods=["GET"]),
            Route("/page/jobs/{job_id}/parts", self._parts, methods=["GET"]),
            Route("/page/jobs/{job_id}/code", self._code, methods=["GET"]),
            Route("/page/jobs/{job_id}/checkpoint", self._checkpoint, methods=["GET"]),
        ]

    def _show(self, request: Request) -> Response:
        job_id, base = request.path_params["job_id"], base_values(request)
        try:
            view = self._control.job(job_id)
        except UnknownJob:
            found = self._control.candidates(job_id)[-MOST_CANDIDATES:]
            return HTMLResponse(render("unknown_job.html", {**base, "job_id": job_id, "found": found}), 404)
        values = self._part_values(view, caller_of(request.scope))
        folder = self._control.log_dir(view.id)
        more = {
            "throughput": self._control.throughput(view.id),
            "source_text": words.source_text,
            "code": read_code(folder, view.entry, view.code) if view.code else None,
            "most_shown_bytes": MOST_SHOWN_BYTES,
            "command": words.command_line(view),
            "parameters": hyperparameters(view),
            "has_metrics": bool(words.latest(view)),
            "has_only_tried": view.started_s is None and view.phase.is_end,
            "state": {
                "id": "",
                "version": __version__,
                "now_s": self._control.now_s(),
                "row": msgspec.to_builtins(values["row"]),
                "sizes": latest_sizes(view),
            },
        }
        return HTMLResponse(render("job.html", {**base, **values, **more}))

    def _part_values(self, view: JobView, caller: ApiUser) -> dict[str, Any]:
        """What the templates of the parts need. Raises UnknownJob."""
        folder, now_s = self._control.log_dir(view.id), self._control.now_s()
        row, may_change = job_row(view, now_s), caller.may_change_jobs_of(view.tenant)
        checkpoints, num_checkpoints = read_checkpoints(folder)
        stories = changes_only((view.id, story) for story in self._control.stories(view.id))
        is_failed, state = view.phase is Phase.FAILED, folder.parent.parent
        # Of a deadline that was refused the reason and the offer say all.
        has_none = view.phase is Phase.REJECTED or (view.phase.is_end and view.deadline_s is None)
        is_offer_open = (view.counter_offer_s or 0.0) > now_s
        return {
            "view": view,
            "row": row,
            "said": row.why if is_failed else view.reason,
            "offer": words.offer(view),
            "may_change": may_change,
            "actions": allowed(view, caller),
            "acted_on": view if is_offer_open else msgspec.structs.replace(view, counter_offer_s=None),
            "quoted_id": shlex.quote(view.id),
            "state_option": f" --state {shlex.quote(str(state))}" if state != StateFolder().path else "",
            "job_dir": str(folder),
            "format_bytes": format_bytes,
            "promise": [] if has_none else words.promise_words(view, self._control.policy, row.standing),
            "promise_moments": {} if view.phase is Phase.REJECTED else words.promise_moments(view),
            "resizes": words.resize_rows(view),
            "resize_totals": words.totals(view),
            "checkpoints": checkpoints,
            "num_checkpoints": num_checkpoints,
            "facts": self._facts(view, may_change),
            "moments": words.moments(view, now_s),
            "stories": [story for _, story in reversed(stories[-MOST_STORIES:])],
            "num_older_stories": max(0, len(stories) - MOST_STORIES),
        }

    def _facts(self, view: JobView, may_change: bool) -> list[tuple[str, str]]:
        told = [("id", view.id), *words.facts(view), ("elasticity", str(view.elasticity))]
        try:
            return told + words.submission_facts(self._control.submission(view.id), may_change)
        except UnknownJob:  # it ended under a version that did not keep this
            return told

    def _parts(self, request: Request) -> Response:
        """What a page cannot say by itself of a job that has changed: HTML by the id of its element."""
        view = self._control.job(request.path_params["job_id"])
        values = self._part_values(view, caller_of(request.scope))
        parts = {name: render(f"job/{name}.html", values) for name in PARTS}
        return answer({"sizes": latest_sizes(view), "parts": parts})

    def _code(self, request: Request) -> Response:
        """Answer with a file of the job's code, for users who may change the job.

        Others are refused, since a file in the script's folder may hold a secret.
        """
        job_id, path = request.path_params["job_id"], request.query_params.get("file", "")
        view = self._control.job(job_id)
        if not caller_of(request.scope).may_change_jobs_of(view.tenant):
            return failure(403, f"files of job {job_id!r} are shown to users who may cancel it")
        try:
            return answer(
                {"path": path, "text": read_code_text(self._control.log_dir(job_id), path, view.code)}
            )
        except NotShown as why:
            return failure(404, str(why))

    def _checkpoint(self, request: Request) -> Response:
        """Answer with a checkpoint of the job as a file to keep, for users who may change the job."""
        job_id, name = request.path_params["job_id"], request.query_params.get("file", "")
        if not caller_of(request.scope).may_change_jobs_of(self._control.job(job_id).tenant):
            return failure(403, f"checkpoints of job {job_id!r} are given to users who may cancel it")
        file = checkpoint_file(self._control.log_dir(job_id), name)
        if file is None:
            return failure(
                404, f"job {job_id!r} has no checkpoint of this name any more; load its page again"
            )
        return FileResponse(
            f"/proc/self/fd/{file.fileno()}",  # whatever has its name by now
            media_type="application/octet-stream",
            filename=name,
            stat_result=os.fstat(file.fileno()),
            background=BackgroundTask(file.close),
        )


def latest_sizes(view: JobView) -> list[tuple[float, int]]:
    """(time, workers) from each time on."""
    return [(round(at_s, 2), workers) for at_s, workers in view.sizes[-MOST_SIZES:]]


class NotShown(Exception):
    """A file of a snapshot cannot be shown; the argument says why."""


class Checkpoint(NamedTuple):
    """A file, or a folder of files, from which the job, or another one, can go on."""

    name: str
    steps: int
    num_bytes: int
    at_s: float  #: written


class CodeList(NamedTuple):
    """What is known of a snapshot."""

    roots: tuple[str, ...]
    num_bytes: int
    num_files: int
    #: Absolute paths as their user has them, names in the folder in which they were found, and sizes: of the
    #: first `MOST_FILES`, the job's script first.
    files: list[tuple[str, str, int]]


def read_checkpoints(job_dir: Path) -> tuple[list[Checkpoint], int]:
    """The newest ones, newest first, and how many there are in all."""
    paths = [path for _, path in checkpoints_in(work_folder(job_dir) / CHECKPOINTS)]
    found = []
    for path in paths[:MOST_CHECKPOINTS]:
        with suppress(OSError):  # it is gone meanwhile
            if not path.is_symlink():
                written_s = path.stat().st_mtime
                found.append(Checkpoint(path.name, order_in(path)[0], num_bytes_of(path), written_s))
    return found, len(paths)


def checkpoint_file(job_dir: Path, name: str) -> BufferedReader | None:
    """Open the checkpoint of this name; None: there is none any more, or it is no file of the job's own."""
    path = work_folder(job_dir) / CHECKPOINTS / name
    try:
        return open_checkpoint(path) if digest_in(path) and path.name == name else None
    except OSError:
        return None


def read_code(job_dir: Path, entry: str, digest: str) -> CodeList | None:
    """None: the job runs its files as they are, or the list of its snapshot cannot be read.

    Args:
        entry: the job's script, which comes first.
        digest: of the snapshot.
    """
    tree = read_tree(job_dir, digest)
    if tree is None:
        return None
    names = {path: _name(path, tree.roots) for path in tree.files}
    script = os.path.realpath(entry)
    paths = sorted(names, key=lambda path: (path != script, names[path].count("/"), names[path]))
    files = [(path, names[path], tree.files[path].num_bytes) for path in paths[:MOST_FILES]]
    return CodeList(tree.roots, sum(file.num_bytes for file in tree.files.values()), len(paths), files)


def read_code_text(job_dir: Path, path: str, digest: str) -> str:
    """Return the text of one file of the job's code snapshot, as submitted. Raises NotShown."""
    tree = read_tree(job_dir, digest)
    file = None if tree is None else tree.files.get(path)
    if file is None:
        raise NotShown(f"{path} is not in the snapshot of this job; choose a file of its list")
    if file.num_bytes > MOST_SHOWN_BYTES:
        raise NotShown(
            f"{path} has {file.num_bytes} bytes, and the page shows files up to {MOST_SHOWN_BYTES}"
        )
    try:
        kept = object_path(job_dir.parent.parent, file.digest)
        return read_regular(kept, MOST_SHOWN_BYTES).decode()
    except UnicodeDecodeError:
        raise NotShown(f"{path} is not a text in UTF-8; look at the file itself") from None
    except OSError as error:
        raise NotShown(f"the copy of {path} cannot be read ({error.strerror}); look at the file") from None


def read_tree(job_dir: Path, digest: str) -> CodeTree | None:
    """Read the manifest of the store: the job can replace what is in its own folder."""
    try:
        return decode_tree(tree_path(job_dir.parent.parent, digest).read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _name(path: str, roots: tuple[str, ...]) -> str:
    root = next((root for root in roots if path.startswith(root.rstrip("/") + "/")), "")
    return path.removeprefix(root).lstrip("/") if root else path


# ---------------------------------------------------------------- actions
class Field(NamedTuple):
    """What a dialog asks for."""

    name: str  #: in the body of the request, and after `--` on the command line
    label: str
    hint: str
    kind: str = "text"
    is_needed: bool = False


DEADLINE_HINT = "such as 18:00, 2h, tomorrow 08:00, 2030-01-31T18:00:00"
NEW_DEADLINE = Field("deadline", "New deadline (empty: as submitted)", DEADLINE_HINT)


class Action(NamedTuple):
    """One verb of the API, for jobs with which it can be done."""

    name: str
    verb: Verb
    label: str  #: of the button
    title: str
    text: str
    does: str  #: on the button of the dialog
    when: Callable[[JobView], bool]
    field: Field | None = None
    value: Callable[[JobView], str] = lambda view: ""  #: with which the field begins
    names: Callable[[JobView], tuple[str, ...]] = lambda view: ()  #: sent as `names`
    is_danger: bool = False
    command: str = ""  #: of the command line, where it is not called as the action


def _offered(view: JobView) -> str:
    """The deadline that could be promised, as it means the same in the zone of the browser."""
    return str(with_offset(offer(view), 0.0))


def _is_open(view: JobView) -> bool:
    return not view.phase.is_end


#: Of each action its verb in parentheses, its button, and the title and the button of its dialog; below these
#: what the dialog says.
TEXTS = told_options("""
hold (hold): Hold… | Hold this job? | Hold the job
    It is saved and gives up its devices until it is resumed. A promise of its deadline is withdrawn.
resume (resume): Resume… | Resume this job? | Resume the job
    It goes on from where it was saved. A promise that was withdrawn is asked for again.
accept (accept_differences): Accept differences… | Accept what its trial run has found? | Accept them
    The differences that are listed above no longer limit it to its smallest number of workers: what it learns
    may depend on its size.
prioritize (change_priority): Prioritize… | Change its priority? | Change it
    Among jobs of its class those with the highest priority get devices first. Promises are kept.
promise (promise): Change deadline… | Change its deadline? | Ask for it
    If the deadline cannot be promised, the job keeps what it has.
cancel (cancel): Cancel… | Cancel this job? | Cancel the job
    Its training ends. Its checkpoints and logs stay.
continue (continue_job): Continue… | Continue this job? | Continue
    It is submitted again, as a new job that goes on from the last checkpoint.
retry (retry): Retry… | Retry this job? | Retry
    It is submitted again, as a new job that begins at step 0.
take-offer (retry): Submit again with the offer… | Submit it again with the deadline that was offered? | \
Submit again
    It is a new job, and is promised this deadline if the devices are still free for it.
""")
PRIORITY_HINT = f"from {-MOST_PRIORITY} to {MOST_PRIORITY}; 0 is the usual one"
#: Other fields of each action.
RULES: dict[str, dict[str, Any]] = {
    "hold": {"when": lambda view: _is_open(view) and not view.is_held and not keeps_devices(view)},
    "resume": {"when": lambda view: _is_open(view) and view.is_held},
    "accept": {
        "when": lambda view: _is_open(view) and bool(view.held_by),
        "names": lambda view: view.held_by,
        "command": "accept-differences",
    },
    "prioritize": {
        "when": _is_open,
        "field": Field("priority", "Priority", PRIORITY_HINT, "number", True),
        "value": lambda view: str(view.priority),
    },
    "promise": {
        "when": _is_open,
        "field": Field("deadline", "Deadline", DEADLINE_HINT, is_needed=True),
        "value": _offered,
    },
    "cancel": {"when": _is_open, "is_danger": True},
    "continue": {
        "when": lambda view: is_undone(view) and view.phase is not Phase.REJECTED and not view.fixed,
        "field": NEW_DEADLINE,
    },
    "retry": {"when": lambda view: is_undone(view) and not offer(view), "field": NEW_DEADLINE},
    "take-offer": {
        "when": lambda view: is_undone(view) and bool(offer(view)),
        "field": NEW_DEADLINE,
        "value": _offered,
        "command": "retry",
    },
}


def _action(name: str, told: Option) -> Action:
    (verb,), (label, title, does) = told.words, (told.metavar or "").split(" | ")
    return Action(name, getattr(Verbs, verb).verb, label, title, told.help, does, **RULES[name])


ACTIONS = tuple(_action(*one) for one in TEXTS.items())


def allowed(view: JobView, caller: ApiUser) -> tuple[Action, ...]:
    """The actions that are the caller's to take; whether they can be taken now, `when` says."""
    if not caller.may_change_jobs_of(view.tenant):
        return ()
    return tuple(action for action in ACTIONS if caller.role >= action.verb.role)
