"""A small BERT that classifies: evaluation and checkpoints after each epoch, and an end by early stopping."""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

final = Path(sys.argv[1])


class CountEpochs(TrainerCallback):
    """A callback of the script's own, which a new worker must have as the others do."""

    def __init__(self):
        self.ends = []

    def on_epoch_end(self, args, state, control, **kwargs):
        self.ends.append(state.global_step)


def sentence(index):
    tokens = (torch.arange(8) * (3 + index % 5) + index) % 20 + 1
    return {"input_ids": tokens, "labels": int(tokens[0] > 10)}


class Stream(torch.utils.data.IterableDataset):
    """Sentences that were not trained on."""

    def __iter__(self):
        return map(sentence, range(96, 126))


def accuracy(predictions):
    return {"accuracy": float((np.argmax(predictions.predictions, -1) == predictions.label_ids).mean())}


torch.manual_seed(0)
config = BertConfig(
    vocab_size=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=str(final.parent / "out"),
    num_train_epochs=10,
    per_device_train_batch_size=12,
    learning_rate=2e-3,
    eval_strategy="epoch",
    save_strategy="epoch",
    logging_strategy="epoch",
    save_total_limit=1,
    load_best_model_at_end=True,
    metric_for_best_model="accuracy",
    train_sampling_strategy="sequential",
    report_to="none",
    use_cpu=True,
)
counted = CountEpochs()
trainer = Trainer(
    BertForSequenceClassification(config),
    arguments,
    train_dataset=[sentence(index) for index in range(96)],
    eval_dataset=Stream(),
    compute_metrics=accuracy,
    callbacks=[EarlyStoppingCallback(5, early_stopping_threshold=0.02), counted],
)
trainer.train()
if trainer.is_world_process_zero():
    names = ("step", "epoch", "loss", "eval_loss", "eval_accuracy", "learning_rate")
    rows = [[float(each.get(name, -1.0)) for name in names] for each in trainer.state.log_history]
    best = int(trainer.state.best_model_checkpoint.rsplit("-")[-1])
    learnt = {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}
    torch.save({**learnt, "rows": torch.tensor(rows), "best": torch.tensor([best, *counted.ends])}, final)
