"""One run of a job in mlflow, for the script of how-to/track-runs.md."""

from mlflow import MlflowClient


class Tracker:
    def __init__(self, run_id, first_step):
        self.client = MlflowClient()
        found = self.client.get_experiment_by_name("digits")
        experiment = found.experiment_id if found else self.client.create_experiment("digits")
        runs = self.client.search_runs([experiment], f"tags.swell = '{run_id}'")
        run = runs[0] if runs else self.client.create_run(experiment, tags={"swell": run_id})
        self.id = run.info.run_id
        self.last = max((one.step for one in self.client.get_metric_history(self.id, "loss")), default=0)

    def log(self, newest):
        for step, loss in newest:
            if step > self.last:
                self.client.log_metric(self.id, "loss", loss, step=step)
                self.last = step
