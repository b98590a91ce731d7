"""How many GPUs are in a list of resources, in each of the ways in which Slurm writes it."""

from __future__ import annotations

import re

#: Which cores or indexes there are, such as `(S:0-1)`.
_REMARK = re.compile(r"\([^)]*\)")
#: `gpu`, `gpu:4`, `gpu:1g.5gb:7`, `gres/gpu=4`, `gres/gpu:a100=4`: a type may begin with a digit.
_GPUS = re.compile(r"(?:gres[:/])?gpu(?::[^=]*?)??(?:[:=](?P<num>[0-9]+))?")
#: Of a TRES: the number of all types together.
_WHOLE = re.compile(r"(?:gres/)?gpu=([0-9]+)")


def count_gpus(resources: str) -> int:
    """Count the GPUs of a GRES, `gpu:a100:4(S:0-1),gpu:2`, or a TRES, `cpu=64,gres/gpu=6,gres/gpu:a100=6`.

    All types count. Where there is no number it is 1; 0: no GPU is named.
    """
    parts = [part.strip() for part in _REMARK.sub("", resources).split(",")]
    whole = [match for part in parts if (match := _WHOLE.fullmatch(part))]
    found = [match for part in parts if (match := _GPUS.fullmatch(part))]
    return sum(int(match[1]) for match in whole) or sum(int(match["num"] or 1) for match in found)
