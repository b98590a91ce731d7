"""Commands of a Slurm script that do not become a part of a job, and why."""

from __future__ import annotations

_PRINTING = (
    "cat date df du echo env free hostname id ls lscpu nproc nvcc nvidia-smi printenv printf ps pwd rocm-smi "
    "rocminfo sacct scontrol seff sinfo sleep squeue sstat sync true type uname uptime wait which whoami"
)
_OF_SHELL = ": alias exit hash set shopt trap ulimit umask unalias unset"
_PRINTS, _SHELL = frozenset(_PRINTING.split()), frozenset(_OF_SHELL.split())
_REASONS = {
    **dict.fromkeys(_PRINTS, "it prints or waits, and the job does not need it"),
    **dict.fromkeys(_SHELL, "it is about the shell, and Swell runs none"),
    **dict.fromkeys(
        ("module", "ml"),
        "Swell loads no modules: load them before `swell up` or `swell node`, whose environment workers have",
    ),
    **dict.fromkeys(
        ("source", "."),
        "Swell reads no other file: what it sets is given by --env NAME=VALUE, or set before `swell up`",
    ),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"),
        "its folder is not told by its name; --python PATH/bin/python names its interpreter",
    ),
    "sbatch": "Swell starts a job again by itself, from its last checkpoint",
    **dict.fromkeys(("[", "test"), "it is a condition, and no command that trains hangs on it"),
}
_OTHER = "Swell runs no shell commands: run it before you submit, or bring data with --needs and --fetch"


def why_dropped(command: str) -> str:
    """Why a command of this name is dropped, and what there is instead."""
    return _REASONS.get(command, _OTHER)


def is_harmless(command: str) -> bool:
    """Whether the job is the same if the command never runs."""
    return command in _PRINTS or command in _SHELL or command in ("[", "test", "mkdir", "rm")
