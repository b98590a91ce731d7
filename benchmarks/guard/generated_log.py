"""A log of training jobs of the shape of ElasticFlow's 195 jobs: public logs are not part of this tree."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

MODELS = {"vgg16": 43, "resnet50": 37, "deepspeech2": 36, "gpt2": 32, "bert": 25, "inception3": 22}
DEVICES = {1: 118, 2: 1, 4: 45, 8: 28, 16: 3}
BATCHES = {32: 20, 64: 62, 128: 73, 256: 40}
#: Seconds: mean between two submissions; median, least and most of the log-normal lengths, and their spread.
EVERY_S, MEDIAN_S, LEAST_S, MOST_S, SPREAD = 882.0, 15_600.0, 600.0, 832_400.0, 1.42
SLACK = (0.5, 1.5)  #: from submission to deadline, in lengths


def generated_log(num_jobs: int, seed: int = 0) -> str:
    """In the format of ElasticFlow's traces. The first jobs of a longer log are those of a shorter one."""
    draw, at_s = random.Random(seed), 0.0
    lines = ["job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"]
    for number in range(num_jobs):
        at_s += draw.expovariate(1 / EVERY_S)
        lasts_s = min(MOST_S, max(LEAST_S, MEDIAN_S * draw.lognormvariate(0.0, SPREAD)))
        deadline_s = at_s + lasts_s * draw.uniform(*SLACK)
        model, devices, batch = (_one_of(draw, shares) for shares in (MODELS, DEVICES, BATCHES))
        steps = int(lasts_s * draw.uniform(1.3, 21.0))
        lines.append(
            f"job{number:04d},{at_s:.0f},{steps},{model},{deadline_s:.0f},{batch},{devices},{lasts_s:.0f}"
        )
    return "\n".join(lines) + "\n"


def _one_of(draw: random.Random, shares: Mapping[Any, int]) -> Any:
    return draw.choices(list(shares), list(shares.values()))[0]
