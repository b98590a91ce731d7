"""How many workers a line of a Slurm script starts at most, and how many devices each of them has."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.launch_line import LaunchLine
from swell.api.sbatch.shell_variables import ShellVariables
from swell.api.sbatch.slurm_size import SlurmSize


def workers_and_devices(launch: LaunchLine, size: SlurmSize, variables: ShellVariables) -> tuple[int, int]:
    """The most workers, and the devices of each: a power of two. Raises InvalidSbatchLine."""
    workers = size.tasks if launch.is_srun else 1
    if launch.is_torchrun:
        options = dict(launch.torchrun_options)
        workers = _nodes(options, launch.line, variables) * _of_node(options, launch.line, size, variables)
    if not size.gpus:
        return workers, 1
    devices = max(1, size.gpus // workers)
    return min(workers, size.gpus), 1 << (devices.bit_length() - 1)


def _of_node(options: Mapping[str, str], line: int, size: SlurmSize, variables: ShellVariables) -> int:
    text = variables.with_sizes(options.get("nproc-per-node", "1"), line)
    if text in ("gpu", "auto") and size.gpus_per_node:
        return size.gpus_per_node
    return _number("nproc-per-node", text, line)


def _nodes(options: Mapping[str, str], line: int, variables: ShellVariables) -> int:
    text = variables.with_sizes(options.get("nnodes", "1"), line)
    return _number("nnodes", text.rpartition(":")[2], line)


def _number(name: str, text: str, line: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidSbatchLine(line, f"torchrun: --{name}={text} is no number that is known; write one")
    return int(text)
