"""A Slurm script as the fields of a Swell job, with what becomes of each of its lines."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swell.api.durations import format_duration
from swell.api.sbatch.directives import SbatchOption, sbatch_options
from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.launch_line import LaunchLine
from swell.api.sbatch.script_reading import ScriptReader, TranslatedLine, refuse_option
from swell.api.sbatch.shell_variables import ShellVariables, without_marks
from swell.api.sbatch.slurm_options import DROPPED, TOLD
from swell.api.sbatch.slurm_size import slurm_size
from swell.api.sbatch.time_limit import parse_time_limit
from swell.api.sbatch.worker_range import workers_and_devices
from swell.wire import environ

#: Fields that only a script with `swell.train` has. Without any of them it is started as torchrun would.
OF_LIVE_JOBS = frozenset(
    {"global_batch", "batch", "batch_per_worker", "steps", "epochs", "samples", "elasticity"}
)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


@dataclass(slots=True)
class TranslatedScript:
    """Fields of a submission, and how they came about."""

    fields: dict[str, Any]
    lines: list[TranslatedLine]


def translated(
    text: str,
    folder: str,
    variables: Mapping[str, str],
    arguments: Sequence[str] = (),
    given: Collection[str] = (),
) -> TranslatedScript:
    """The job that a Slurm script stands for.

    Args:
        folder: where it is submitted, in which Slurm would run it.
        variables: environment of the shell that submits.
        arguments: those of the script, its `$1`, `$2`, ...
        given: fields that the submitter gives in place of what the script says.

    Raises:
        InvalidSbatchLine: names the line, the rule and the remedy.
    """
    if re.match(r"#!.*python", text):
        raise InvalidSbatchLine(1, "it is a Python script; submit it with `swell submit --script`")
    options = [*sbatch_options(text)]
    for option in options:
        if not option.is_ignored:
            refuse_option(option.name, option.line)
    return _Translation(options, folder, variables, arguments, given).script(text)


class _Translation:
    """The translation of one script."""

    def __init__(
        self,
        options: list[SbatchOption],
        folder: str,
        variables: Mapping[str, str],
        arguments: Sequence[str],
        given: Collection[str],
    ) -> None:
        self.options, self.given = options, given
        self.values = {one.name: one.value for one in options if not one.is_ignored}
        numbers = {
            f"SLURM_{name.upper().replace('-', '_')}": self.values[name]
            for name in ("cpus-per-task", "job-name")
            if name in self.values
        }
        sizes = slurm_size(self.values, 0).variables
        self.variables = ShellVariables(variables, arguments, numbers, sizes)
        self.reader = ScriptReader(self.variables, posixpath.join(folder, self.values.get("chdir", "")))
        for one in options:
            if one.name == "export" and not one.is_ignored:
                self.reader.export_option(one.value, one.line)

    def script(self, text: str) -> TranslatedScript:
        launch = self.reader.read(text)
        lines, fields = self.reader.lines, self._fields(launch)
        lines += [*self._options(fields), *self._launch(launch, fields)]
        for name, export in self.reader.exports.items():
            why = _why_not_set(name)
            lines.append(
                TranslatedLine(
                    export.line, export.text, why or f"env: {name}={fields['env'][name]}", bool(why)
                )
            )
        fields = {word: value for word, value in fields.items() if word not in self.given and value}
        return TranslatedScript(fields, sorted(lines, key=lambda told: told.line))

    def _fields(self, launch: LaunchLine) -> dict[str, Any]:
        """All fields; empty ones are as the script does not say."""
        known, folder = self.variables.known, posixpath.normpath(self.reader.folder)
        size = slurm_size(self.values | dict(launch.srun_options), launch.line)
        workers, devices = workers_and_devices(launch, size, self.variables)
        python = self.reader.python
        if "/" in launch.interpreter:
            python = posixpath.join(folder, known(launch.interpreter, launch.line))
        return {
            "name": _NO_NAME.sub("-", self.values.get("job-name", "")).strip("._-")[:63],
            "script": posixpath.normpath(posixpath.join(folder, known(launch.script, launch.line))),
            "args": [known(one, launch.line) for one in launch.arguments],
            "workdir": folder,
            "python": python,
            "env": {
                name: known(export.value, export.line)
                for name, export in self.reader.exports.items()
                if not _why_not_set(name)
            },
            "workers": "1" if workers == 1 else f"1:{workers}",
            "devices_per_worker": devices if devices > 1 else None,
            "elasticity": None if OF_LIVE_JOBS.intersection(self.given) else "restart",
        }

    def _options(self, fields: Mapping[str, Any]) -> Iterator[TranslatedLine]:
        """What becomes of the directives."""
        size = f"workers: {fields['workers']}"
        if fields["devices_per_worker"]:
            size += f", devices_per_worker: {fields['devices_per_worker']}"
        words = {"job-name": f"name: {fields['name']}", "chdir": f"workdir: {fields['workdir']}"}
        for option in self.options:
            meaning = words.get(option.name, size)
            if why := _why_dropped(option, is_restarted=fields["elasticity"] is not None):
                yield TranslatedLine(option.line, option.text, why)
            elif option.name != "export":  # its variables have lines of their own
                yield TranslatedLine(option.line, option.text, meaning, is_dropped=False)

    def _launch(self, launch: LaunchLine, fields: Mapping[str, Any]) -> Iterator[TranslatedLine]:
        """What becomes of the line that trains."""
        told = [f"{word}: {fields[word]}" for word in ("script", "python", "workers") if fields[word]]
        told += [f"args: {shlex.join(fields['args'])}"] if fields["args"] else []
        start = f"{'srun ' if launch.is_srun else ''}{'torchrun' if launch.is_torchrun else 'python'}"
        yield TranslatedLine(launch.line, f"{start} {launch.script}", ", ".join(told), is_dropped=False)
        for name, value in launch.srun_options:
            if name in DROPPED:
                text = without_marks(f"srun --{name}={value}" if value else f"srun --{name}")
                yield TranslatedLine(launch.line, text, DROPPED[name])
        counted = ("nproc-per-node", "nnodes")
        if others := [f"--{name}" for name, _ in launch.torchrun_options if name not in counted]:
            why = "Swell brings the workers together, and starts them again"
            yield TranslatedLine(launch.line, f"torchrun {' '.join(others)}", why)
        if launch.interpreter_options:
            why = "an option of the interpreter; what workers print is not held back"
            yield TranslatedLine(launch.line, f"python {' '.join(launch.interpreter_options)}", why)
        for redirection in self.reader.redirections:
            if redirection.startswith("<"):
                raise InvalidSbatchLine(
                    launch.line, "the script reads input, and a job has none; name a file"
                )
            yield TranslatedLine(launch.line, redirection, TOLD)


def _why_not_set(name: str) -> str:
    """Why a job cannot set the variable; empty if it can."""
    if name in environ.RESERVED or name.startswith(environ.RESERVED_PREFIXES):
        return "Swell sets it for each worker"
    if name in environ.READ_AT_START:
        return "it is read when an interpreter starts: set it before `swell up` or `swell node`"
    return ""


def _why_dropped(option: SbatchOption, is_restarted: bool) -> str:
    """Why a directive becomes nothing; empty if it becomes something."""
    if option.is_ignored:
        return "below the first command: Slurm does not read it either"
    if option.name == "time":
        return _limit(option, is_restarted)
    if option.name == "cpus-per-task":
        return "Swell counts devices; the script has the number where it uses it"
    return DROPPED.get(option.name, "")


def _limit(option: SbatchOption, is_restarted: bool) -> str:
    """What is said of `--time`."""
    try:
        limit_s = parse_time_limit(option.value)
    except ValueError as error:
        raise InvalidSbatchLine(option.line, f"--time: {error}") from None
    if limit_s is None:
        return "no limit, and Swell has none"
    estimate = " and --estimate TIME (on one worker)" if is_restarted else ""
    return (
        "a limit, and Swell ends no job for its time; if the job must have ended by then, give "
        f"--deadline now+{format_duration(limit_s)}{estimate}"
    )
