"""Slurm scripts as jobs (`--from-sbatch`): their `#SBATCH` lines and the one line that trains.

Swell may resize a script that has nothing else. Any other one is a fixed job, of which bash runs all lines.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from swell.api.submission import OF_FIXED
from swell.model.errors import InvalidJob
from swell.model.quantities import format_duration
from swell.slurm_words import count_gpus, slurm_seconds

#: Options of `srun` that no value follows as a word of its own.
FLAGS = (
    "--exclusive", "--label", "--unbuffered", "--kill-on-bad-exit", "--overlap", "--overcommit", "--no-kill",
    "--pty", "--verbose", "--quiet", "-[EKOQXZkluvsq]",
)  # fmt: skip
#: Begins each fixed job that is made of a script.
SHIM = Path(__file__).with_name("sbatch.sh").read_text().replace("@FLAGS@", " | ".join(FLAGS))
#: Fields that only a script with `swell.train` has. Without any of them it is started as torchrun would.
OF_LIVE_JOBS = frozenset(
    {"global_batch", "batch", "batch_per_worker", "steps", "epochs", "samples", "elasticity"}
)
#: Long names of the letters that scripts use.
LETTERS = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "J": "job-name", "N": "nodes", "a": "array",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "n": "ntasks", "o": "output", "p": "partition",
    "q": "qos", "t": "time",
}  # fmt: skip
#: Options that say how large the job is.
SIZES = ("nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres")
_PLACED = "Swell chooses where a job runs; --kind NAME asks for a kind of device"
_OWNED = "who may use which devices is a matter of the platform: its tenants, quotas and priorities"
_LOGS = "`swell logs JOB` has the output of all workers"
_MEMORY = "it limits a node of Slurm's job; --memory SIZE limits all workers on a node together"
_AGAIN = "Swell starts a job again by itself, from its last checkpoint"
#: Options that a Swell job does not have, and why.
DROPPED = {
    **dict.fromkeys(("partition", "constraint", "exclusive", "nodelist", "exclude", "distribution"), _PLACED),
    **dict.fromkeys(("account", "qos", "reservation", "priority", "licenses", "nice"), _OWNED),
    **dict.fromkeys(("output", "error", "open-mode", "label", "unbuffered", "comment"), _LOGS),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _MEMORY),
    **dict.fromkeys(("requeue", "no-requeue", "kill-on-bad-exit", "signal"), _AGAIN),
    "export": "--env NAME=VALUE gives variables",
    **dict.fromkeys(("mail-type", "mail-user"), "`--notify mailto://...` sends mail when the job ends"),
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu", "cpu-bind", "gpu-bind"), "Swell counts devices"),
}
#: Options without which it would be another job, and what to do.
REFUSED = {
    "array": "an array is many jobs, and Swell submits one; write a job file with a `sweep` instead",
    "dependency": "it names jobs of Slurm; remove it, and give --after JOB with a job of Swell",
    "wrap": "there is no script then; submit what it runs with `swell submit --script`",
}
#: Fields that options become, of a script that may be resized, and of others.
OF_ELASTIC_JOBS = {
    "job-name": ("name",),
    "chdir": ("workdir",),
    "export": ("env",),
    **dict.fromkeys(SIZES, ("workers", "devices_per_worker")),
}
OF_FIXED_JOBS = {
    **OF_ELASTIC_JOBS,
    **dict.fromkeys(SIZES, ("devices", "nodes")),
    "time": ("time",),
    "signal": ("grace",),
    **dict.fromkeys(("requeue", "no-requeue"), ("retries",)),
}
#: Of a job that is to be requeued.
RETRIES = 10
_DIRECTIVE = re.compile(r"#SBATCH(?=\s|$)(.*)")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_COUNT = re.compile(r"(?:\d+-)?(\d+)", re.ASCII)
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class InvalidScriptLine(InvalidJob):
    """A line of a Slurm script cannot be translated; the text names the thing, the rule and the remedy."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")


@dataclass(frozen=True, slots=True)
class TranslatedLine:
    """What became of one thing that a Slurm script says."""

    line: int
    text: str
    meaning: str
    is_dropped: bool = True


@dataclass(slots=True)
class TranslatedScript:
    """Fields of a submission, and how they came about."""

    fields: dict[str, Any]
    lines: list[TranslatedLine]


@dataclass(frozen=True, slots=True)
class _Option:
    line: int
    name: str  #: the long one
    value: str

    @property
    def text(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


@dataclass(frozen=True, slots=True)
class _Launch:
    """`srun OPTIONS torchrun OPTIONS train.py ARGUMENTS`, of which only the file is needed."""

    line: int
    srun_options: list[_Option] | None  #: None: without srun
    torchrun_options: list[_Option] | None  #: None: without torchrun
    interpreter: str
    script: str
    arguments: list[str]


def translated(
    text: str, folder: str, arguments: Sequence[str] = (), given: Mapping[str, Any] = {}
) -> TranslatedScript:
    """The job that a Slurm script stands for.

    Args:
        folder: where it is submitted, in which Slurm would run it.
        arguments: more of the line that trains.
        given: fields that the submitter gives in place of what the script says, and variables besides.

    Raises:
        InvalidScriptLine: names the line, the rule and the remedy.
    """
    if re.match(r"#!.*python", text):
        raise InvalidScriptLine(1, "it is a Python script; submit it with `swell submit --script`")
    options, commands = [*_sbatch_options(text)], [one for one in _commands(text) if one[1].strip()]
    if not commands:
        what = "no line runs a program; there must be one such as `srun torchrun train.py`"
        raise InvalidScriptLine(len(text.splitlines()), what)
    values = {one.name: one.value for one in options}
    place = posixpath.normpath(posixpath.join(folder, values.get("chdir", "")))
    fields: dict[str, Any] = {
        "name": _NO_NAME.sub("-", values.get("job-name", "")).strip("._-")[:63],
        "workdir": place,
        "env": _exported(values.get("export", "")),
    }
    launch = (
        None if {*OF_FIXED}.intersection(given) else _launch(*commands[0]) if len(commands) == 1 else None
    )
    if launch is None:
        own, variables = _fixed_fields(values, given, commands[0][0])
        name = fields["name"] or "sbatch"
        fields |= {**own, "command": ["bash", "-c", f"{variables}\n{SHIM}{text}", name, *arguments]}
        how = "command: bash runs the whole script, once on each node"
        lines = [TranslatedLine(commands[0][0], commands[0][1].strip(), how, is_dropped=False)]
        becomes = OF_FIXED_JOBS
    else:
        fields |= _elastic_fields(launch, values, place, is_live=bool(OF_LIVE_JOBS.intersection(given)))
        fields["args"] = [*launch.arguments, *arguments]
        options += launch.srun_options or ()
        lines, becomes = [_translated_launch(launch, fields)], OF_ELASTIC_JOBS
    fields |= {**given, "env": fields["env"] | given.get("env", {})}
    lines += [_translated_option(one, fields, becomes) for one in options]
    fields = {word: value for word, value in fields.items() if value or value == 0}
    return TranslatedScript(fields, sorted(lines, key=lambda told: told.line))


def _elastic_fields(
    launch: _Launch, values: Mapping[str, str], place: str, *, is_live: bool
) -> dict[str, Any]:
    workers, devices = _workers_and_devices(launch, values)
    python = launch.interpreter
    return {
        "script": posixpath.normpath(posixpath.join(place, launch.script)),
        "python": posixpath.join(place, python) if "/" in python else "",
        "workers": "1" if workers == 1 else f"1:{workers}",
        "devices_per_worker": devices if devices > 1 else None,
        "processes": 1 if devices > 1 and is_live else None,  # a task is one process
        "elasticity": None if is_live else "restart",
    }


def _fixed_fields(
    values: Mapping[str, str], given: Mapping[str, Any], line: int
) -> tuple[dict[str, Any], str]:
    """Fields, and a line that exports variables of Slurm's which only the options of the script tell."""
    if "nodes" in given:
        values = {**values, "nodes": str(given["nodes"])}
    nodes, tasks, gpus = slurm_size(values, line)
    exported = f"export SLURM_NTASKS={tasks}"
    if each := _gpus("gpus-per-task", values, line):
        exported += f" SLURM_GPUS_PER_TASK={each}"
    signal = re.fullmatch(r"(?:\w+:)?(?:SIG)?(?:TERM|15)(?:@(\d+))?", values.get("signal", ""))
    limit_s = _limit_s(values.get("time", "0"), line)
    fields = {
        "devices": gpus or nodes,
        "nodes": nodes if nodes > 1 else None,
        "time": format_duration(limit_s) if limit_s else None,
        "grace": f"{signal[1] or 60}s" if signal else None,
        "retries": 0 if "no-requeue" in values else RETRIES if "requeue" in values else None,
    }
    return fields, exported


def _exported(text: str) -> dict[str, str | None]:
    """Variables of `--export=ALL,NAME=VALUE,NAME`; one without a value has the submitter's."""
    pairs = [part.partition("=") for part in text.split(",") if part not in ("", "ALL", "NONE", "NIL")]
    return {name: value if sign else None for name, sign, value in pairs}


# ---------------------------------------------------------------- reading
def _sbatch_options(text: str) -> Iterator[_Option]:
    """The options above the first command; `sbatch` reads no others."""
    for line, content in enumerate(text.splitlines(), 1):
        if match := _DIRECTIVE.match(content):
            yield from _options(_words(match[1], line), line, "#SBATCH")
        elif content.strip() and not content.lstrip().startswith("#"):
            return


def _options(words: Sequence[str], line: int, what: str) -> Iterator[_Option]:
    """`--name=value`, `--name value`, `-n value` and `-nvalue`. A word without a dash is a value."""
    rest = [*words]
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
        else:
            name, value = LETTERS.get(word[1:2], word[:2]), word[2:]
            sign = value
        if not word.startswith("-") or word == "-":
            raise InvalidScriptLine(line, f"{what}: `{word}` is no option; write --NAME=VALUE")
        if not sign and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield _Option(line, name.replace("_", "-"), value)


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are no comments, with their numbers; one that ends with a backslash goes on in the next."""
    begin, joined = 0, ""
    for line, content in enumerate(text.splitlines(), 1):
        if not joined and (not content.strip() or content.lstrip().startswith("#")):
            continue
        begin = begin if joined else line
        joined += content.removesuffix("\\") + " "
        if not content.endswith("\\"):
            yield begin, joined
            joined = ""
    if joined:
        yield begin, joined


def _words(text: str, line: int) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError as error:
        raise InvalidScriptLine(line, f"{str(error).lower()}; close it") from None


def _launch(line: int, content: str) -> _Launch | None:
    """What the only command of a script launches; None: no Python file, or it needs a shell."""
    words = _words(content, line)
    names = [posixpath.basename(word) for word in words]
    is_srun = names[:1] == ["srun"]
    place = _program_place(words) if is_srun else 0
    name = names[place] if place < len(words) else ""
    is_known = name == "torchrun" or _PYTHON.fullmatch(name) is not None or name.endswith(".py")
    if not is_known or any(word and not word.strip("();<>|&") for word in words):
        return None
    program, rest = words[place], [*words[place:]]
    file = next((at for at, word in enumerate(rest) if word.endswith(".py")), None)
    if file is None or any(word in ("-c", "--module", "--no-python") for word in rest[:file]):
        return None
    module = rest[rest.index("-m") + 1] if "-m" in rest[:file] else ""
    if (module and module not in _TORCHRUN) or any("$" in word or "`" in word for word in rest[file:]):
        return None
    is_torchrun = names[place] == "torchrun" or bool(module)
    begin = rest.index(module) + 1 if module else 1
    if names[place] == "torchrun":
        program = f"{program.removesuffix('torchrun')}python"
    return _Launch(
        line,
        [*_options(words[1:place], line, "srun")] if is_srun else None,
        [*_options(rest[begin:file], line, "torchrun")] if is_torchrun else None,
        program if file else "python",
        rest[file],
        rest[file + 1 :],
    )


def _program_place(words: Sequence[str]) -> int:
    """Where what `srun` starts begins: at the first word that is no option of it, and no option's value."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        has_value = re.match(r"--[^=]*=|-[A-Za-z].", words[at])
        at += 1 if has_value or any(fnmatchcase(words[at], flag) for flag in FLAGS) else 2
    return at


# ---------------------------------------------------------------- how large it is
def _workers_and_devices(launch: _Launch, values: Mapping[str, str]) -> tuple[int, int]:
    """The most workers, and the devices of each: a power of two. Options of `srun` count first."""
    size = {**values, **{one.name: one.value for one in launch.srun_options or ()}}
    nodes, tasks, gpus = slurm_size(size, launch.line)
    workers = 1 if launch.srun_options is None else tasks
    if launch.torchrun_options is not None:
        options = {one.name: one.value for one in launch.torchrun_options}
        of_node = math.ceil(gpus / nodes)
        workers = _torchrun_number("nnodes", options, nodes, launch.line)
        workers *= _torchrun_number("nproc-per-node", options, of_node, launch.line)
    if not gpus:
        return workers, 1
    return min(workers, gpus), 1 << (max(1, gpus // workers).bit_length() - 1)


def _torchrun_number(name: str, options: Mapping[str, str], of_slurm: int, line: int) -> int:
    """A number, or that of the `#SBATCH` lines where it is one of Slurm's variables, or `gpu`."""
    text = options.get(name, "1").rpartition(":")[2]
    if (text.startswith("$") or text in ("gpu", "auto")) and of_slurm:
        return of_slurm
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidScriptLine(line, f"torchrun: --{name}={text} is no number that is known; write one")
    return int(text)


def slurm_size(options: Mapping[str, str], line: int) -> tuple[int, int, int]:
    """Nodes, tasks and GPUs of the whole job: the largest that the options allow."""
    tasks, per_node = _count("ntasks", options, line), _count("ntasks-per-node", options, line)
    gpus, of_task = _gpus("gpus", options, line), _gpus("gpus-per-task", options, line)
    of_node = _gpus("gpus-per-node", options, line) or count_gpus(options.get("gres", ""))
    nodes = _count("nodes", options, line)
    if not nodes and gpus and of_node:
        nodes = math.ceil(gpus / of_node)
    elif not nodes:
        nodes = math.ceil(tasks / per_node) if tasks and per_node else 1
    gpus = gpus or nodes * of_node
    if not tasks:
        tasks = gpus // of_task if gpus and of_task and not per_node else nodes * (per_node or 1)
    return nodes, max(1, tasks), gpus or tasks * of_task


def _count(name: str, options: Mapping[str, str], line: int) -> int:
    """A number, or the largest of MIN-MAX; 0 if it is not given."""
    match = _COUNT.fullmatch(options.get(name, "0"))
    if match is None:
        raise InvalidScriptLine(line, f"--{name}={options[name]} is no number, and no MIN-MAX; write one")
    return int(match[1])


def _gpus(name: str, options: Mapping[str, str], line: int) -> int:
    """Number of `[TYPE:]NUMBER,...`, 0 if it is not given."""
    text = options.get(name, "0")
    gpus = count_gpus(",".join(f"gpu:{part}" for part in text.split(",")))
    if not gpus and text != "0":
        raise InvalidScriptLine(line, f"--{name}={text} is no number of GPUs; write [TYPE:]NUMBER")
    return gpus


# ---------------------------------------------------------------- what became of it
def _translated_option(
    option: _Option, fields: Mapping[str, Any], becomes: Mapping[str, tuple[str, ...]]
) -> TranslatedLine:
    """What becomes of an option of `sbatch` or `srun`. Raises InvalidScriptLine."""
    if option.name in REFUSED:
        raise InvalidScriptLine(option.line, f"--{option.name}: {REFUSED[option.name]}")
    words = becomes.get(option.name, ())
    told = ", ".join(f"{word}: {fields[word]}" for word in words if fields[word] or fields[word] == 0)
    if option.name == "time" and not told:
        told = _limit(option, fields.get("elasticity") is not None)
        return TranslatedLine(option.line, option.text, told)
    if option.name not in (*becomes, *DROPPED):
        raise InvalidScriptLine(
            option.line, f"--{option.name} is no option that Swell knows; correct it, or remove it"
        )
    return TranslatedLine(
        option.line, option.text, told or DROPPED.get(option.name, "nothing"), is_dropped=not told
    )


def _translated_launch(launch: _Launch, fields: Mapping[str, Any]) -> TranslatedLine:
    told = [f"{word}: {fields[word]}" for word in ("script", "python", "workers") if fields[word]]
    told += [f"args: {shlex.join(fields['args'])}"] if fields["args"] else []
    start = "" if launch.srun_options is None else "srun "
    start += "python" if launch.torchrun_options is None else "torchrun"
    return TranslatedLine(launch.line, f"{start} {launch.script}", ", ".join(told), is_dropped=False)


def _limit_s(text: str, line: int) -> int:
    """Seconds; 0: no limit."""
    try:
        return 0 if text.lower() in ("infinite", "unlimited", "-1") else slurm_seconds(text)
    except ValueError as error:
        raise InvalidScriptLine(line, f"--time: {error}") from None


def _limit(option: _Option, is_restarted: bool) -> str:
    """What is said of `--time`."""
    limit_s = _limit_s(option.value, option.line)
    if not limit_s:
        return "no limit, and Swell has none"
    estimate = " and --estimate TIME (on one worker)" if is_restarted else ""
    return (
        "a limit, and Swell ends no job for its time; if the job must have ended by then, give "
        f"--deadline now+{format_duration(limit_s)}{estimate}"
    )
