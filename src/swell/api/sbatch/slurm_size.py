"""How large a Slurm job is: nodes, tasks and GPUs, of the options that say one or two of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.slurm_gpus import count_gpus

_NODES = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_GPUS = re.compile(r"(?:[^:,=()]+:)?(\d+)(?:\(.*\))?", re.ASCII)  #: a type may begin with a digit


@dataclass(frozen=True, slots=True)
class SlurmSize:
    """The largest size that the options allow."""

    nodes: int
    tasks: int
    gpus: int  #: of the whole job; 0: it asks for none
    gpus_per_node: int

    @property
    def variables(self) -> dict[str, int]:
        """What Slurm tells the script of it."""
        told = {"NNODES": self.nodes, "JOB_NUM_NODES": self.nodes, "NTASKS": self.tasks, "NPROCS": self.tasks}
        told["NTASKS_PER_NODE"] = math.ceil(self.tasks / self.nodes)
        if self.gpus:
            told |= {
                "GPUS": self.gpus,
                "GPUS_ON_NODE": self.gpus_per_node,
                "GPUS_PER_NODE": self.gpus_per_node,
            }
        return {f"SLURM_{name}": value for name, value in told.items()}


def slurm_size(options: Mapping[str, str], line: int) -> SlurmSize:
    """The size of a job with these options. Raises InvalidSbatchLine for a number that is none."""
    given = {name: _count(name, options, line) for name in ("ntasks", "ntasks-per-node", "ntasks-per-gpu")}
    tasks, per_node, per_gpu = given.values()
    gpus, gpus_of_task = _gpus("gpus", options, line), _gpus("gpus-per-task", options, line)
    gpus_of_node = _gpus("gpus-per-node", options, line) or count_gpus(options.get("gres", ""))
    gpus_of_task = gpus_of_task or count_gpus(options.get("tres-per-task", ""))
    nodes = _nodes(options, line)
    if not nodes:
        nodes = math.ceil(tasks / per_node) if tasks and per_node else 1
        nodes = math.ceil(gpus / gpus_of_node) if gpus and gpus_of_node else nodes
    gpus = gpus or nodes * gpus_of_node
    if not tasks:
        tasks = nodes * (per_node or 1)
        tasks = gpus * per_gpu if gpus and per_gpu and not per_node else tasks
        tasks = gpus // gpus_of_task if gpus and gpus_of_task and not per_node else tasks
    gpus = gpus or tasks * gpus_of_task
    return SlurmSize(nodes, max(1, tasks), gpus, gpus_of_node or math.ceil(gpus / nodes))


def _nodes(options: Mapping[str, str], line: int) -> int:
    text = options.get("nodes", "")
    match = _NODES.fullmatch(text)
    if text and not match:
        raise InvalidSbatchLine(line, f"--nodes={text} is no number of nodes, and no MIN-MAX; write one")
    return int(match[2] or match[1]) if match else 0


def _count(name: str, options: Mapping[str, str], line: int) -> int:
    text = options.get(name, "0")
    if not (text.isascii() and text.isdigit()):
        raise InvalidSbatchLine(line, f"--{name}={text} is no whole number; write one")
    return int(text)


def _gpus(name: str, options: Mapping[str, str], line: int) -> int:
    """Number of `[TYPE:]NUMBER,...`, 0 if it is not given."""
    text = options.get(name, "0")
    matches = [_GPUS.fullmatch(part) for part in text.split(",")]
    if not all(matches):
        raise InvalidSbatchLine(line, f"--{name}={text} is no number of GPUs; write [TYPE:]NUMBER")
    return sum(int(match[1]) for match in matches if match)
