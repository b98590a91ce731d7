"""transformers' Trainer. Arguments: epochs at which it ends, batch of a worker."""

import os
import sys

import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

NUM_EPOCHS, LOCAL_BATCH = map(int, sys.argv[1:])


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(40, 4, generator=generator, dtype=torch.float64)

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.x[index].sum(0, keepdim=True)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def forward(self, x, labels):
        logits = self.layers(x)
        return {"loss": nn.functional.mse_loss(logits, labels), "logits": logits}


torch.manual_seed(0)
arguments = TrainingArguments(
    output_dir="saved",
    num_train_epochs=NUM_EPOCHS,
    per_device_train_batch_size=LOCAL_BATCH,
    per_device_eval_batch_size=10,
    eval_strategy="epoch",
    save_strategy="epoch",
    lr_scheduler_type="constant",
    disable_tqdm=True,
    report_to="none",
    use_cpu=True,
)
rows = Rows()
trainer = Trainer(
    Model(),
    arguments,
    train_dataset=rows,
    eval_dataset=torch.utils.data.Subset(rows, range(25)),
    compute_metrics=lambda found: {"seen": len(found.label_ids)},
)
trainer.train(resume_from_checkpoint=get_last_checkpoint("saved") if os.path.isdir("saved") else None)
assert trainer.evaluate()["eval_seen"] == 25, "each sample once"
if trainer.is_world_process_zero():
    parameters = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
    torch.save({"steps": torch.tensor(trainer.state.global_step), "parameters": parameters}, "final.pt")
