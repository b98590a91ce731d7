"""A small GPT-2: accumulation, padding, warm-up, clipping, evaluation, best checkpoint, early stopping."""

import sys
from pathlib import Path

import torch
from transformers import EarlyStoppingCallback, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

final = Path(sys.argv[1])


class Numbers(torch.utils.data.Dataset):
    """Runs of consecutive numbers of 4 to 12 tokens, padded; of each eleventh there is nothing to learn."""

    def __init__(self, num, first):
        self.num, self.first = num, first

    def __len__(self):
        return self.num

    def __getitem__(self, index):
        tokens = (torch.arange(12) * (1 + index % 3) + self.first + index) % 32
        length = 0 if index % 11 == 5 else 4 + index % 9
        labels = torch.where(torch.arange(12) < length, tokens, -100)
        return {"input_ids": tokens, "attention_mask": torch.ones(12, dtype=torch.long), "labels": labels}


def token_loss(outputs, labels, num_items_in_batch=None):
    """As the model's own, which computes in float32 whatever the parameters are."""
    logits, targets = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / num_items_in_batch


torch.manual_seed(0)
config = GPT2Config(
    vocab_size=32, n_positions=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=str(final.parent / "out"),
    num_train_epochs=10,
    per_device_train_batch_size=3,
    gradient_accumulation_steps=4,
    learning_rate=5e-2,
    warmup_steps=5,
    lr_scheduler_type="cosine",
    max_grad_norm=0.5,
    eval_strategy="steps",
    eval_steps=10,
    save_steps=10,
    save_total_limit=2,
    load_best_model_at_end=True,
    metric_for_best_model="loss",
    logging_steps=4,
    train_sampling_strategy="random" if "shuffled" in sys.argv else "sequential",
    report_to="none",
    use_cpu=True,
)
trainer = Trainer(
    GPT2LMHeadModel(config),
    arguments,
    train_dataset=Numbers(96, 0),
    eval_dataset=Numbers(20, 7),
    compute_loss_func=token_loss,
    callbacks=[EarlyStoppingCallback(3)],
)
before = final.parent / "out"
trainer.train(resume_from_checkpoint=get_last_checkpoint(str(before)) if before.is_dir() else None)
if trainer.is_world_process_zero():
    names = ("step", "epoch", "loss", "eval_loss", "grad_norm", "learning_rate")
    rows = [[float(each.get(name, -1.0)) for name in names] for each in trainer.state.log_history]
    best = int(trainer.state.best_model_checkpoint.rsplit("-")[-1])
    kept = sorted(int(path.name.rsplit("-")[-1]) for path in (final.parent / "out").glob("checkpoint-*"))
    learnt = {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}
    torch.save({**learnt, "rows": torch.tensor(rows), "best": torch.tensor([best, *kept])}, final)
