"""One run of a job in wandb, for the script of how-to/track-runs.md."""

from pathlib import Path

import wandb


class Tracker:
    def __init__(self, run_id, first_step):
        settings = wandb.Settings(x_transaction_log_flush_interval=0.1)  # seconds; default: 15
        self.run = wandb.init(project="digits", id=run_id, resume="allow", settings=settings)
        self.run.define_metric("loss", step_metric="train_step")
        self.path = Path(f"wandb/{run_id}.last")  # what was logged last: a run without a network cannot tell

        self.last = int(self.path.read_text()) if self.path.exists() else 0

    def log(self, newest):
        for step, loss in newest:
            if step > self.last:
                self.run.log({"loss": loss, "train_step": step})
                self.last = step
        new = self.path.with_suffix(".new")
        new.write_text(str(self.last))
        new.replace(self.path)
