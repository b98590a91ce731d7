"""The job of `evaluating.py` as a script of Hugging Face's Trainer: seconds of evaluation, and epochs.

Where a folder follows, its steps are logged there, as `benchmarks.training` has it. Where the batch of a
worker follows, too, it saves checkpoints and goes on from them, as a restart job has to.
"""

import os
import sys
import time
from pathlib import Path

import torch
from benchmarks.training.steplog import StepLog
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

EVALUATION_S, EPOCHS = float(sys.argv[1]), int(sys.argv[2])
FOLDER, IS_RESTARTED = Path(*sys.argv[3:4]), len(sys.argv) > 4


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x, labels):
        logits = self.layer(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Evaluation(TrainerCallback):
    def __init__(self):
        self.log = StepLog(FOLDER) if len(sys.argv) > 3 else None

    def on_step_end(self, arguments, state, control, **_):
        if self.log is not None:
            self.log.note(state.global_step, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))

    def on_epoch_end(self, arguments, state, control, **_):
        time.sleep(EVALUATION_S)


torch.manual_seed(0)
x = torch.randn(512, 8)
labels = (x.sum(1) > 0).long()
arguments = TrainingArguments(
    output_dir=str(FOLDER / "out"),
    per_device_train_batch_size=int(sys.argv[4]) if IS_RESTARTED else 64,
    num_train_epochs=EPOCHS,
    learning_rate=0.1,
    lr_scheduler_type="constant",
    save_strategy="steps" if IS_RESTARTED else "no",
    save_steps=20,
    save_total_limit=2,
    logging_strategy="no",
    disable_tqdm=True,
    report_to="none",
    use_cpu=not torch.cuda.is_available(),
)
rows = [{"x": one, "labels": label} for one, label in zip(x, labels, strict=True)]
trainer = Trainer(Classifier(), arguments, train_dataset=rows, callbacks=[Evaluation()])
trainer.train(resume_from_checkpoint=any((FOLDER / "out").glob("checkpoint-*")))
