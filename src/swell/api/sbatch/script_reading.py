"""The commands of a Slurm script, one after another: what they set for the line that trains."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.api.sbatch.dropped_commands import is_harmless, why_dropped
from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.launch_line import TRANSPARENT, LaunchLine, launch_line
from swell.api.sbatch.shell_lexer import ShellCommand, WordPart, refuse_logic, shell_commands
from swell.api.sbatch.shell_variables import ASSIGNMENT, ShellVariables
from swell.api.sbatch.slurm_options import REFUSED

_ACTIVATE = re.compile(r"(.+)/bin/activate")
_CHAINED = ("&&", "||")
_PIPED = ("|", "|&")


@dataclass(frozen=True, slots=True)
class TranslatedLine:
    """What became of one thing that a Slurm script says."""

    line: int
    text: str
    meaning: str
    is_dropped: bool = True


@dataclass(frozen=True, slots=True)
class ShellExport:
    """A variable that a Slurm script hands on to what it runs."""

    line: int
    text: str
    value: str


@dataclass(slots=True)
class ScriptReader:
    """Reads a script's commands, and keeps what a job can have of them."""

    variables: ShellVariables
    folder: str
    python: str = ""
    launch: LaunchLine | None = None
    redirections: tuple[str, ...] = ()  #: of the line that launches
    exports: dict[str, ShellExport] = field(default_factory=dict)
    lines: list[TranslatedLine] = field(default_factory=list)
    not_launched: InvalidSbatchLine | None = None  #: why a line that looks like a launch is none
    is_conditional: bool = False  #: whether a condition stands before the command, in its list

    def read(self, text: str) -> LaunchLine:
        """The line that trains. Raises InvalidSbatchLine if there is none, or more than one."""
        for command in shell_commands(text):
            self._command(command)
        if self.launch is None:
            raise self.not_launched or InvalidSbatchLine(
                0, "no line runs a Python file; there must be one such as `srun torchrun train.py`"
            )
        return self.launch

    def export_option(self, text: str, line: int) -> None:
        """Take the variables of `--export=ALL,NAME=VALUE,NAME`."""
        for part in text.split(","):
            name, sign, value = part.partition("=")
            if name and name not in ("ALL", "NONE", "NIL"):
                given = value if sign else self.variables.value(name)
                self.exports[name] = ShellExport(line, f"--export={part}", given)

    def _command(self, command: ShellCommand) -> None:
        refuse_logic(command)
        if command.before not in _CHAINED:
            self.is_conditional = False
        assignments, words = self._split(command)
        if not words:
            for name, value in assignments.items():
                self.variables.assign(name, value)
                self._tell(command, f"variable {name} of the script", is_dropped=False)
            return
        name = posixpath.basename(words[0])
        if command.before in (*_PIPED, "||") or self.is_conditional:
            self._dependent(command, words, name)
        elif name == "export":
            self._export(command)
        elif name in ("cd", "pushd"):
            self._enter(command, words)
        elif name in ("source", ".") and len(words) > 1 and (match := _ACTIVATE.fullmatch(words[1])):
            self._activate(command, match[1])
        elif name in ("conda", "mamba") and words[1:2] == ["activate"] and "/" in words[-1]:
            self._activate(command, words[-1])
        else:
            self._other(command, assignments, words, name)
        self.is_conditional = self.is_conditional or name in ("[", "test")

    def _split(self, command: ShellCommand) -> tuple[dict[str, str], list[str]]:
        """Assignments in front of a command, and its words, expanded."""
        assignments, words = dict[str, str](), [*command.words]
        while words:
            first = words[0][0] if words[0] else None
            if first and not first.is_quoted and ASSIGNMENT.match(first.text):
                name, value = self._assigned(words[0])
                assignments[name] = value
            elif not (first and first.text in {"env", *TRANSPARENT} and len(words) > 1):
                break
            del words[0]
        return assignments, [text for word in words for text in self.variables.expanded(word)]

    def _assigned(self, word: Sequence[WordPart]) -> tuple[str, str]:
        name, _, text = word[0].text.partition("=")
        value = self.variables.joined([WordPart(word[0].kind, text), *word[1:]])
        if not name.endswith("+"):
            return name, value
        return name[:-1], self.variables.value(name[:-1]) + value

    def _dependent(self, command: ShellCommand, words: list[str], name: str) -> None:
        """A command that runs only if another fails or a condition holds, or that reads another's output."""
        is_piped = command.before in _PIPED
        if not is_piped and is_harmless(name):
            self._tell(command, why_dropped(name))
        elif is_piped and self._launched(words, command.line) is None:
            self._tell(command, "it reads output, and `swell logs JOB` has that")
        else:
            why = "a condition" if self.is_conditional else f"`{command.before}`"
            raise InvalidSbatchLine(
                command.line,
                f"`{name}` depends on {why}, which is shell logic, and Swell runs no shell; "
                "write the commands that are to run, and no others",
            )

    def _other(self, command: ShellCommand, own: dict[str, str], words: list[str], name: str) -> None:
        if name == "eval" and not re.search("conda|mamba|module", command.source):
            raise InvalidSbatchLine(
                command.line, "`eval` is shell logic, and Swell runs no shell; write the command"
            )
        if name == "unset":
            self._unset(words[1:])
        launch = self._launched(words, command.line)
        if launch is None:
            self._tell(command, why_dropped(name))
            return
        if self.launch is not None:
            raise InvalidSbatchLine(
                command.line,
                f"runs Python, as line {self.launch.line} does, and a job runs one script; "
                "submit them one by one (`--after JOB` makes one wait for another)",
            )
        self.launch, self.redirections = launch, tuple(command.redirections)
        for variable, value in own.items():
            self.exports[variable] = ShellExport(command.line, f"{variable}=...", value)
        for option, value in launch.srun_options:
            refuse_option(option, command.line)
            if option == "export":
                self.export_option(value, command.line)

    def _launched(self, words: list[str], line: int) -> LaunchLine | None:
        """The launch of a line, if it is one. A launch that cannot be is told if there is no other."""
        is_srun = posixpath.basename(words[0]) == "srun"
        try:
            found = launch_line(words, line)
        except InvalidSbatchLine as error:
            if is_srun or "python" in words[0] or "torchrun" in words[0]:
                raise
            self.not_launched = self.not_launched or error
            return None
        if found is None and is_srun and not any(is_harmless(posixpath.basename(word)) for word in words):
            self.not_launched = InvalidSbatchLine(
                line, "srun runs no Python file, and Swell trains in Python; write srun python FILE.py"
            )
        return found

    def _export(self, command: ShellCommand) -> None:
        for word in command.words[1:]:
            if word and ASSIGNMENT.match(word[0].text):
                name, value = self._assigned(word)
                self.variables.assign(name, value)
            else:
                name = self.variables.joined(word)
                value = self.variables.value(name)
            if not name.startswith("-"):
                self.exports[name] = ShellExport(command.line, f"export {name}", value)

    def _unset(self, names: list[str]) -> None:
        for name in names:
            self.variables.unset(name)
            self.exports.pop(name, None)

    def _enter(self, command: ShellCommand, words: list[str]) -> None:
        target = words[1] if len(words) > 1 else self.variables.value("HOME")
        self.folder = posixpath.join(self.folder, self.variables.known(target, command.line))
        self._tell(command, f"workdir: {posixpath.normpath(self.folder)}", is_dropped=False)

    def _activate(self, command: ShellCommand, place: str) -> None:
        place = self.variables.known(place, command.line)
        self.python = posixpath.join(self.folder, place, "bin/python")
        self._tell(command, f"python: {self.python} (Swell must be installed there)", is_dropped=False)

    def _tell(self, command: ShellCommand, meaning: str, is_dropped: bool = True) -> None:
        self.lines.append(TranslatedLine(command.line, command.source, meaning, is_dropped))


def refuse_option(option: str, line: int) -> None:
    """Raises InvalidSbatchLine for an option of Slurm that makes something else than a job of Swell."""
    if option in REFUSED:
        raise InvalidSbatchLine(line, f"--{option}: {REFUSED[option]}")
