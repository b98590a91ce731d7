"""Jobs that share one machine, as in FlowCon's evaluation (section 5.2), but shorter."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import swell
from swell.model.job import Elasticity

SCRIPTS = Path(swell.__file__).parent / "demo"
#: A second here stands for so many of the paper's: of the fixed schedule, and of the random ones.
FIXED_SCALE, RANDOM_SCALE = 10.0, 20.0
#: Random jobs start within so many seconds (section 5.4), and are longer or shorter by this share.
WINDOW_S, VARIED_SHARE = 200.0, 0.3


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model with the data that ships with installed packages, and how it is trained here."""

    script: str
    global_batch: int
    learning_rate: float
    step_s: float  #: of CPU, roughly, on the machine on which the lengths were chosen
    job_s: float  #: CPU seconds of a job, roughly
    elasticity: Elasticity = Elasticity.LIVE  #: RESTART: it knows nothing of Swell, and prints its loss

    def length(self, steps: int) -> dict[str, Any]:
        """Fields of a job of so many steps. A script that knows nothing of Swell counts them itself."""
        args = ["--batch", str(self.global_batch), "--lr", str(self.learning_rate)]
        if self.elasticity is Elasticity.LIVE:
            return {"args": args, "steps": steps}
        restarted = {"elasticity": self.elasticity.value, "estimate": max(steps * self.step_s, 1.0)}
        return {"args": [*args, "--steps", str(steps)], **restarted}


#: Table 1 of the paper: all but `perceptron`, which is in NumPy, in PyTorch. The first five are those of the
#: random schedules of five. Pictures are 8 x 8 digits, text is Python's language reference.
MODELS = {
    "lstm": TrainedModel("lstm.py", 64, 1e-2, 0.0040, 7.0),
    "vae": TrainedModel("vae.py", 96, 1e-3, 0.0016, 8.0),
    "perceptron": TrainedModel("perceptron.py", 96, 2e-3, 0.0002, 6.0, Elasticity.RESTART),
    "cnn": TrainedModel("cnn.py", 96, 1e-3, 0.0031, 6.0),
    "gru": TrainedModel("gru.py", 64, 1e-2, 0.0125, 7.0),
    "birnn": TrainedModel("birnn.py", 96, 1e-3, 0.0028, 5.0),
    "lstm_crf": TrainedModel("lstm_crf.py", 32, 1e-2, 0.0055, 7.0),
}


@dataclass(frozen=True, slots=True)
class ColocatedJob:
    """One job of a schedule."""

    name: str
    model: str  #: of MODELS
    at_s: float  #: submitted so long after the first
    steps: int

    def fields(self, image: str = "") -> dict[str, Any]:
        """Return the fields of the job, as `Client.submit` takes them; with an image, in a container."""
        model = MODELS[self.model]
        return {
            **({"image": image} if image else {}),
            "name": self.name,
            "script": str(SCRIPTS / model.script),
            "workdir": str(SCRIPTS),
            "global_batch": model.global_batch,
            "workers": "1",
            **model.length(self.steps),
        }


Schedule = tuple[ColocatedJob, ...]


def _job(number: int, model: str, at_s: float, cpu_s: float) -> ColocatedJob:
    return ColocatedJob(f"{model}-{number}", model, at_s, round(cpu_s / MODELS[model].step_s))


#: Section 5.3: VAE at 0 s, digits at 40 s, and at 80 s digits again, by another framework: the late job.
#: They are as long as Figure 8 shows them.
FIXED: Schedule = (
    _job(1, "vae", 0.0, 261.0 / FIXED_SCALE),
    _job(2, "cnn", 40.0 / FIXED_SCALE, 105.0 / FIXED_SCALE),
    _job(3, "perceptron", 80.0 / FIXED_SCALE, 28.0 / FIXED_SCALE),
)


def drawn(num: int, seed: int) -> Schedule:
    """So many jobs, the models in turn, submitted at random moments; the first at 0 s."""
    draw = random.Random(seed)
    models = [list(MODELS)[place % len(MODELS)] for place in range(num)]
    draw.shuffle(models)
    at_s = sorted(draw.uniform(0.0, WINDOW_S / RANDOM_SCALE) for _ in models)
    lengths_s = [MODELS[model].job_s * draw.uniform(1 - VARIED_SHARE, 1 + VARIED_SHARE) for model in models]
    parts = zip(models, at_s, lengths_s, strict=True)
    return tuple(
        _job(number, model, round(moment_s - at_s[0], 3), cpu_s)
        for number, (model, moment_s, cpu_s) in enumerate(parts, start=1)
    )


def shortened(schedule: Schedule, factor: float) -> Schedule:
    """The same jobs, so many times shorter, and submitted so much sooner."""
    return tuple(
        replace(job, at_s=job.at_s / factor, steps=max(1, round(job.steps / factor))) for job in schedule
    )


def scripts_of(schedule: Schedule, num_steps: int) -> Schedule:
    """One short job for each model of it: once these have run, every script has been measured."""
    models = dict.fromkeys(job.model for job in schedule)
    first = {model: next(job for job in schedule if job.model == model) for model in models}
    return tuple(
        replace(job, name=f"trial-{model}", at_s=0.0, steps=num_steps) for model, job in first.items()
    )
