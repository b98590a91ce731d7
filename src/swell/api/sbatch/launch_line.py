"""The line of a Slurm script that trains: `srun torchrun [OPTIONS] train.py ARGUMENTS` and its relatives."""

from __future__ import annotations

import getopt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.shell_variables import without_marks
from swell.api.sbatch.slurm_options import slurm_options

PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: Commands that may stand before another one, and change nothing of what it does.
TRANSPARENT = frozenset({"exec", "nohup", "time"})
#: Programs that start training themselves, or the place where it happens, and what to do.
LAUNCHERS = {
    **dict.fromkeys(
        ("accelerate", "deepspeed", "composer", "lightning", "fabric"),
        "a launcher of its own; write `srun python FILE.py`: workers have torchrun's variables",
    ),
    **dict.fromkeys(
        ("mpirun", "mpiexec", "horovodrun"), "MPI, which Swell does not start; use torch.distributed"
    ),
    **dict.fromkeys(
        ("apptainer", "singularity", "docker", "podman", "enroot"),
        "a container; write the command without it, and give --image NAME (Docker or Podman)",
    ),
    **dict.fromkeys(("bash", "sh", "zsh"), "another shell script; write the line of it that trains"),
    **dict.fromkeys(
        ("conda", "mamba", "uv", "poetry"), "an environment; write `srun PATH/bin/python FILE.py`"
    ),
}
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_TORCHRUN_VALUES = (
    "duplicate-stderr-filters duplicate-stdout-filters event-log-handler local-addr local-ranks-filter "
    "log-dir logs-specs master-addr master-port max-restarts monitor-interval nnodes node-rank "
    "nproc-per-node numa-binding rdzv-backend rdzv-conf rdzv-endpoint rdzv-id redirects role "
    "shutdown-timeout signals-to-handle start-method tee"
)
_TORCHRUN_FLAGS = ("standalone", "virtual-local-rank", "use-env")
#: Flags by which torchrun runs what is no file of Python.
_TORCHRUN_OTHERS = ("module", "no-python", "run-path")


@dataclass(slots=True)
class LaunchLine:
    """A line that runs a Python file."""

    line: int
    script: str
    arguments: list[str]
    interpreter: str = "python"
    is_srun: bool = False
    is_torchrun: bool = False
    srun_options: list[tuple[str, str]] = field(default_factory=list)
    torchrun_options: list[tuple[str, str]] = field(default_factory=list)
    interpreter_options: list[str] = field(default_factory=list)


def launch_line(words: Sequence[str], line: int) -> LaunchLine | None:
    """What the words launch; None if they run no Python, and are not a launch.

    Raises:
        InvalidSbatchLine: they launch something that cannot be a Swell job.
    """
    rest, options, is_srun = [*words], list[tuple[str, str]](), False
    while rest and rest[0] in TRANSPARENT:
        del rest[0]
    if rest and _name(rest[0]) == "srun":
        options, rest = slurm_options("srun", rest[1:], line)
        is_srun = True
    found = _python(rest, line, is_srun)
    if found is not None:
        found.is_srun, found.srun_options = is_srun, options
    return found


def _python(words: list[str], line: int, is_srun: bool) -> LaunchLine | None:
    name = _name(words[0]) if words else ""
    if name == "torchrun":
        return _torchrun(words[1:], line, words[0].removesuffix("torchrun") + "python")
    if PYTHON.fullmatch(name):
        return _interpreter(words, line, is_srun)
    if name.endswith(".py"):
        return LaunchLine(line, words[0], words[1:])
    if name in LAUNCHERS:
        raise InvalidSbatchLine(line, f"`{name}` is {LAUNCHERS[name]}")
    return None


def _interpreter(words: list[str], line: int, is_srun: bool) -> LaunchLine | None:
    """What an interpreter runs: a file, or torchrun as a module."""
    options, place = list[str](), 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c", "-"):
        options += words[place : place + (2 if words[place] in ("-W", "-X") else 1)]
        place = 1 + len(options)
    rest = words[place:]
    if rest[:1] == ["-m"] and rest[1:2] and rest[1] in _TORCHRUN_MODULES:
        found = _torchrun(rest[2:], line, words[0])
        found.interpreter_options = options
        return found
    if not is_srun and rest[:1] == ["-m"] and rest[1:2] and rest[1] in ("pip", "venv", "compileall"):
        return None
    if not rest or rest[0] in ("-m", "-c", "-") or not rest[0].endswith(".py"):
        what = without_marks(" ".join(rest[:2])) or "nothing"
        raise InvalidSbatchLine(
            line, f"Python runs `{what}`, and Swell runs a file; write srun python FILE.py"
        )
    return LaunchLine(line, rest[0], rest[1:], words[0], interpreter_options=options)


def _torchrun(words: list[str], line: int, interpreter: str) -> LaunchLine:
    # both spellings: `--nproc_per_node` is what most scripts have
    spellings = {
        name for long in _TORCHRUN_VALUES.split() for name in (f"{long}=", f"{long.replace('-', '_')}=")
    }
    flags = [*_TORCHRUN_FLAGS, *_TORCHRUN_OTHERS]
    spellings |= {name for long in flags for name in (long, long.replace("-", "_"))}
    try:
        found, rest = getopt.getopt(words, "mr:t:", sorted(spellings))
    except getopt.GetoptError as error:
        raise InvalidSbatchLine(line, f"torchrun: {error}; correct it, or remove it") from None
    options = [(name.lstrip("-").replace("_", "-"), value) for name, value in found]
    others = [name for name, _ in options if name in ("m", *_TORCHRUN_OTHERS)]
    if others or not rest or not rest[0].endswith(".py"):
        what = f"-{others[0]}" if others else without_marks(rest[0]) if rest else "nothing"
        raise InvalidSbatchLine(
            line, f"torchrun runs `{what}`, and Swell runs a file; write torchrun FILE.py"
        )
    return LaunchLine(line, rest[0], rest[1:], interpreter, is_torchrun=True, torchrun_options=options)


def _name(word: str) -> str:
    return word.rpartition("/")[2]
