"""A search for the learning rate with Optuna: each trial is a job of a platform."""

import math
import time

import optuna

import swell


def train(trial: optuna.Trial) -> float:
    """Train one job, and return its accuracy. End it early where the study says that others are better."""
    lr = trial.suggest_float("lr", 1e-5, 0.5, log=True)
    with swell.connect() as platform:
        job_id = platform.submit(
            name=f"lr-{trial.number}",
            script="train.py",
            args=["--lr", lr],
            global_batch=64,
            epochs=9,
            workers="1:2",
            metric="accuracy",
            metric_goes="up",
            group="lr",
            tags=[f"lr={lr:.3g}"],
        )
        num_reported = 0
        while True:
            job = platform.job(job_id)  # before its values: those of a job that has ended are complete
            found = platform.metrics(job_id, names=["accuracy"]).series
            values = found[0].last if found else []
            for epoch, value in enumerate(values[num_reported:], num_reported + 1):
                trial.report(math.nan if value is None else value, epoch)
            num_reported = len(values)
            if job.phase.is_end:
                break
            if num_reported and trial.should_prune():
                platform.cancel(job_id)
                raise optuna.TrialPruned
            time.sleep(0.5)
    if job.phase != "succeeded":
        raise RuntimeError(f"{job_id} {job.phase}: {job.reason}")
    return values[-1]


study = optuna.create_study(
    study_name="lr",
    storage="sqlite:///study.db",
    load_if_exists=True,
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=0),
    pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
)
study.optimize(train, n_trials=9, n_jobs=3, catch=RuntimeError)
print(study.best_trial.number, study.best_params, study.best_value)
