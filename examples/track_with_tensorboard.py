"""One run of a job in tensorboard, for the script of how-to/track-runs.md."""

from torch.utils.tensorboard import SummaryWriter


class Tracker:
    def __init__(self, run_id, first_step):
        self.writer, self.last = SummaryWriter(f"runs/{run_id}", purge_step=first_step), first_step - 1

    def log(self, newest):
        for step, loss in newest:
            if step > self.last:
                self.writer.add_scalar("loss", loss, step)
                self.last = step
        self.writer.flush()
