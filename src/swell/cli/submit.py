"""`swell submit`: the fields of a job as options, Slurm scripts, and the verdict, which it waits for."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import swell
from swell.api import words
from swell.api.submission import OF_FIXED, declared
from swell.cli.options import HelpAll, Json, OptionGroup, State, described, value_type, with_groups
from swell.cli.output import clock, moment, print_json, print_note
from swell.model.deadline_state import DeadlineState, deadline_state, is_finish_known, is_measured, took_offer
from swell.model.errors import InvalidJob
from swell.model.quantities import told_devices
from swell.model.view import is_set_aside

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.api.sbatch import TranslatedScript
    from swell.model.view import JobView


#: Fields that say what runs: their options stand first.
PROGRAM = ("script", "entry", "name")


def option_name(field: str) -> str:
    """The option of a field, given the name of its attribute."""
    return f"--{declared()[field].word.replace('_', '-')}"


def _option(name: str, default: str = "") -> Any:
    """The option of a field. `default`: what holds without it, where that is not what the field says."""
    field = declared()[name]
    told = _help(field.option.help) + (" May be repeated." if value_type(field.kinds) == list[str] else "")
    if default:
        told = f"{re.sub(' Default: .*', '', told)} Default: {default}."
    return typer.Option(
        option_name(name),
        metavar=field.option.metavar,
        help=told,
        show_default=False,
        hidden="rare" in field.option.words and not default,
    )


def _help(text: str) -> str:
    """What a field says of its option, with quoted words as a terminal shows them."""
    return re.sub(r"`(\S+)`", lambda word: option_name(word[1]) if word[1] in declared() else word[1], text)


def _parameter(name: str) -> Parameter:
    kind: Any = value_type(declared()[name].kinds)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, _option(name)]
    )


#: Fields whose options are those of `swell run`.
SESSION = (
    "name", "devices", "time", "idle", "port", "kind", "env", "env_from", "uv", "workdir", "memory", "image",
    "mount", "booking", "notify",
)  # fmt: skip
_OF_SUBMIT = [
    name
    for name, field in declared().items()
    if "none" not in field.option.words and name not in ("idle", "port")
]

#: Values of all options of a job by the names of their fields; None: not given.
JobFields = Annotated[
    dict[str, Any], OptionGroup(tuple(map(_parameter, dict.fromkeys((*PROGRAM, *_OF_SUBMIT)))), dict)
]
SessionFields = Annotated[dict[str, Any], OptionGroup(tuple(map(_parameter, SESSION)), dict)]

AcceptUntil = Annotated[str | None, _option("accept_until")]
RequiredDeadline = Annotated[str, _option("deadline")]
#: The same of a job that is there.
OtherDeadline = Annotated[str | None, _option("deadline", "as submitted; a relative one counts from now")]
OtherKind = Annotated[str | None, _option("kind", "as submitted")]
OtherPriority = Annotated[int | None, _option("priority", "as it is")]
OtherWeight = Annotated[float | None, _option("weight", "as it is")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait for the trial run and the admission decision.")
]

#: Exit status when a job's trial run failed, and when a deadline was refused.
FAILED = 1
REFUSED = 3


#: Characters of a line that are shown.
WIDEST = 60


#: What is said of a promise that may not be kept.
DOUBTS = {
    DeadlineState.ON_TRACK: "",
    DeadlineState.AT_RISK: ", but at risk",
    DeadlineState.LATE: ", but is late",
}


@with_groups
@described("""
words (argument): FILE.yaml | SCRIPT.py | -- COMMAND
    A job file, of which options override fields; or a script and its arguments; or the command of a fixed
    job, with --time; or, after --script or --entry, the arguments.
from_sbatch (rare): FILE
    Submit what a Slurm script runs, and print what becomes of each of its lines. Other options override what
    it says. Arguments behind -- follow those of the line that trains.
dry_run (rare):
    With --from-sbatch: print the lines and the job as a job file, and submit nothing.
key (rare): KEY
    Idempotency key: repeated submissions with the same key create one job.
""")
def submit(
    fields: JobFields,
    words: list[str] | None = None,
    from_sbatch: Path | None = None,
    dry_run: bool = False,
    key: str | None = None,
    no_wait: NoWait = False,
    state: State = None,
    json: Json = False,
    help_all: HelpAll = False,
) -> None:
    """Submit a job and print whether its deadline is promised.

    Waits for the trial run of the job. Exit status 1: the job failed in its trial run; 3: its deadline was
    refused.
    """
    given = {name: value for name, value in fields.items() if value not in (None, [])}
    if "env" in given:
        given["env"] = variables_of(given["env"])
    if from_sbatch is not None and (program := given.keys() & {"script", "entry"}):
        raise typer.BadParameter(
            f"{option_name(min(program))} and --from-sbatch exclude each other; leave one out"
        )
    sbatch = None if from_sbatch is None else read_sbatch(from_sbatch, words or [], given)
    if dry_run:
        if sbatch is None:
            raise typer.BadParameter(
                "--dry-run goes with --from-sbatch FILE; `swell what-if` forecasts a job file"
            )
        tell_job_file(sbatch, json)
        return
    file = None if sbatch is not None else _job_file(words or [], given)
    with swell.connect(state) as client:
        try:
            if file is not None:
                ids = client.submit_file(file, key=key, **given)
            else:
                ids = [client.submit(**(given if sbatch is None else sbatch.fields), key=key)]
        except InvalidJob as error:
            raise about_option(error, given) from error
        if sbatch is not None and not json:
            tell_translation(sbatch)
        tell_verdicts(client, ids, no_wait, json)


def variables_of(options: Sequence[str]) -> dict[str, str | None]:
    """Environment variables by name: of `NAME=VALUE`, or of `NAME` alone, which has no value."""
    pairs = (text.partition("=") for text in options)
    return {name: value if sign else None for name, sign, value in pairs}


def about_option(error: InvalidJob, given: Mapping[str, Any]) -> InvalidJob:
    """The same, which names the option where it is about a field that an option gave."""
    field, _, rule = str(error).partition(": ")
    options = {declared()[name].word: option_name(name) for name in given if name != "command"}
    return InvalidJob(f"{options[field]}: {rule}") if field in options else error


def _job_file(words: list[str], given: dict[str, Any]) -> str | None:
    """The job file; None if there is a script, of which `given` gets the arguments, or a command."""
    if words and words[0].endswith(".py") and not given.keys() & {"script", "entry", "time"}:
        given["script"], *words = words
    if given.keys() & {"script", "entry"}:
        given["args"] = words
        return None
    is_file = len(words) == 1 and (words[0].endswith((".yaml", ".yml")) or not given.keys() & {*OF_FIXED})
    if words and not is_file and not all(word.endswith((".yaml", ".yml")) for word in words):
        given["command"] = words
        return None
    if not is_file:
        raise typer.BadParameter(
            "give one job file, or --script PATH, or --entry PACKAGE.MODULE, or --time DURATION -- COMMAND"
        )
    return words[0]


def tell_verdicts(client: Client, job_ids: Sequence[str], no_wait: bool, json: bool) -> None:
    """Wait for each job's admission decision and print it. Exits with status 1 or 3 if one failed."""
    try:
        views = [_judged(client, job_id, no_wait) for job_id in job_ids]
    except KeyboardInterrupt:
        goes_on = "is submitted and goes on" if len(job_ids) == 1 else "are submitted and go on"
        cancel = f"to cancel: swell cancel {' '.join(job_ids)}"
        print(f"{', '.join(job_ids)} {goes_on} without this command; {cancel}", file=sys.stderr)
        raise
    cluster = client.cluster()
    if json:
        print_json(views)
    else:
        for view in views:
            print(verdict(view, cluster.policy, cluster.now_s) + findings_text(view))
        for left_out in dict.fromkeys(getattr(job_id, "left_out", "") for job_id in job_ids):
            print(f"  {left_out}\n" if left_out else "", end="")
    if any(view.phase == "failed" for view in views):
        raise typer.Exit(FAILED)
    if any(view.phase == "rejected" or view.is_unpromised for view in views):
        raise typer.Exit(REFUSED)


def _judged(client: Client, job_id: str, no_wait: bool) -> JobView:
    """The job, once it is known what becomes of it."""
    from swell.api.client import has_verdict

    view = client.job(job_id)
    if no_wait or has_verdict(view):
        return view
    whats = {"live": "its trial run, after which it may start, and ", "restart": "its first steps and "}
    print_note(f"{job_id}: waiting for {whats.get(view.elasticity, '')}the admission decision")
    told = ""

    def is_decided(view: JobView) -> bool:
        nonlocal told
        is_kept_waiting = view.reason_code in {"trial_lost", "no_nodes", "few_devices"}
        if is_kept_waiting and view.reason != told and not has_verdict(view):
            print_note(f"{job_id}: {view.reason}")
            told = view.reason
        return has_verdict(view)

    return client.wait(job_id, is_decided)


def read_sbatch(file: Path, words: Sequence[str], given: Mapping[str, Any]) -> TranslatedScript:
    """The job of a Slurm script with the fields that are given besides.

    Args:
        words: arguments behind those of the line that trains.
        given: fields in place of those of the script.

    Raises:
        InvalidJob: names the file, the line, the rule and the remedy.
    """
    from swell.api.sbatch import InvalidScriptLine, translated

    try:
        return translated(file.read_text("utf-8"), os.getcwd(), words, given)
    except OSError as error:
        raise InvalidJob(f"{file} cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"{file} is not UTF-8 text; save it as UTF-8") from error
    except InvalidScriptLine as error:
        raise InvalidJob(f"{file}, {error}") from error


def tell_translation(found: TranslatedScript) -> None:
    """Print what became of each line."""
    for told in found.lines:
        said = told.text if len(told.text) <= WIDEST else f"{told.text[: WIDEST - 3]}..."
        print(f"line {told.line}: {said} {'dropped:' if told.is_dropped else '->'} {told.meaning}")


def tell_job_file(found: TranslatedScript, json: bool) -> None:
    """Print the job as a job file. Raises InvalidField if it cannot be submitted."""
    import yaml

    from swell.api.submission import parse

    job = {("class" if name == "job_class" else name): value for name, value in found.fields.items()}
    parse(job).to_spec(time.time(), Path.cwd())
    if json:
        print_json({"job": job, "lines": found.lines})
        return
    tell_translation(found)
    print(f"\nAs a job file:\n\n{yaml.safe_dump(job, sort_keys=False, allow_unicode=True)}", end="")


def verdict(view: JobView, policy: str, now_s: float) -> str:
    """What became of a submission, in a line or a few; `policy` is the platform's."""
    if view.phase == "rejected":
        offered = f"\n  submit again with --deadline {words.offer(view)}" if words.offer(view) else ""
        return f"{view.id}: refused: {view.reason}{offered}"
    if view.phase == "failed":
        from swell.model.failure import why_failed

        return f"{view.id}: failed: {why_failed(view)}\n  see `swell show {view.id}`"
    is_ended_session = view.phase.is_end and view.fixed is not None and view.fixed.is_session
    if view.phase in ("ended-early", "timed-out") or is_ended_session:
        return f"{view.id}: {view.phase}: {view.reason}"
    if view.phase.is_end:
        return " ".join([f"{view.id}: {view.phase}.", *words.ended_words(view)])
    if view.is_promised and view.deadline_s is not None:
        taken = f"\n  the counter-offer, for {view.refusal}" if view.refusal and took_offer(view) else ""
        return f"{view.id}: {_promise(view, now_s)}{taken}"
    if view.is_unpromised:
        text = f"{view.id}: not promised: {view.refusal}\n  runs as a soft job{_expected(view, now_s)}"
        to_ask = f"\n  for a promise: swell promise {view.id} --deadline {words.offer(view)}"
        return f"{text}{to_ask if words.offer(view) else ''}"
    if view.job_class == "strict" and is_measured(view) and not is_set_aside(view):
        why = "jobs of a booking get none" if view.booking else f"policy {policy} makes none"
        return f"{view.id}: accepted without a promise: {why}{_expected(view, now_s)}"
    return f"{view.id}: {view.phase}, {view.job_class}{_expected(view, now_s)}"


def findings_text(view: JobView) -> str:
    """Its smallest size, what its trial run found out about its sizes, and warnings; empty: nothing."""
    lines = []
    if view.devices_per_worker > 1 and not view.fixed:
        lines.append(f"\n  smallest size: {told_devices(view.min_workers * view.devices_per_worker)}")
    lines += [f"\n  warning, {about}: {text}" for about, text in view.warnings.items()]
    lines += [f"\n  {line}" for line in words.finding_lines(view)]
    if view.held_by and not view.phase.is_end:
        names = " ".join(view.held_by)
        lines.append(f"\n  to let it grow all the same: swell accept-differences {view.id} {names}")
    return "".join(lines)


def change_refused(view: JobView, now_s: float) -> str:
    """That a job has no other deadline, why, and what it keeps."""
    keeps = "stays without a deadline"
    if view.deadline_s is not None:
        what = "promise to finish by" if view.is_promised else "deadline of"
        keeps = f"keeps its {what} {moment(view.deadline_s, now_s)}"
    text = f"{view.id}: refused: {view.refusal}\n  {keeps}"
    if view.counter_offer_s is None:
        return text
    return f"{text}; ask again with --deadline {words.deadline_words(view.counter_offer_s)}"


def _promise(view: JobView, now_s: float) -> str:
    """Never sounder than it is: a promise that is about to be broken, or is broken, is said to be so."""
    by = f"promised to finish by {moment(view.deadline_s or 0.0, now_s)}"
    doubt = DOUBTS[deadline_state(view, now_s, view.estimated_finish_s)]
    return f"{by}{doubt}{_expected(view, now_s)}"


def _expected(view: JobView, now_s: float) -> str:
    """When an open job is expected to finish, or why that cannot be told."""
    if view.estimated_finish_s is None:
        return f"; {view.reason}"
    if not is_finish_known(view):
        return ", finish not yet known"
    return f", expected to finish at {words.expectation(view, now_s, partial(clock, now_s=now_s))}"
