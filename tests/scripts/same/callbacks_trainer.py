"""A Trainer with set_callback, whose callback is a closure with a counter and sets a weight of the loss."""

import sys
import time
from collections import defaultdict

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train


class CfgNode:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

    def merge_from_dict(self, d):
        self.__dict__.update(d)


class SortDataset(Dataset):
    def __init__(self, length=6, num_digits=3):
        self.length, self.num_digits = length, num_digits

    def __len__(self):
        return 120

    def __getitem__(self, idx):
        inp = torch.randint(self.num_digits, size=(self.length,), dtype=torch.long)
        sol = torch.sort(inp)[0]
        cat = torch.cat((inp, sol), dim=0)
        x, y = cat[:-1].clone(), cat[1:].clone()
        y[: self.length - 1] = -1
        return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(3, 8)
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, idx, targets):
        logits = self.head(self.rnn(self.emb(idx))[0])
        return logits, F.cross_entropy(logits.view(-1, 3), targets.view(-1), ignore_index=-1)


class Trainer:
    @staticmethod
    def get_default_config():
        return CfgNode(
            device="auto",
            num_workers=0,
            max_iters=None,
            batch_size=12,
            learning_rate=3e-3,
            grad_norm_clip=1.0,
        )

    def __init__(self, config, model, train_dataset):
        self.config, self.model, self.train_dataset = config, model, train_dataset
        self.optimizer = None
        self.callbacks = defaultdict(list)
        self.iter_num = 0
        self.iter_time = 0.0
        self.iter_dt = 0.0
        self.penalty = 0.0

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def set_callback(self, onevent, callback):
        self.callbacks[onevent] = [callback]

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model, config = self.model, self.config
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
        loader = DataLoader(self.train_dataset, shuffle=True, batch_size=config.batch_size)
        self.job = train.elastic(model, self.optimizer, loader, epochs=8)
        model.train()
        self.iter_num = 0
        self.iter_time = time.time()
        for _ in self.job.epochs():
            for batch in self.job.batches():
                x, y = (t.clone() for t in batch)
                logits, self.loss = model(x, y)
                model.zero_grad(set_to_none=True)
                loss = self.loss + self.penalty * sum((p**2).sum() for p in model.parameters())
                self.job.backward(loss, weight=(y != -1).sum())
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_norm_clip)
                self.job.step()
                self.trigger_callbacks("on_batch_end")
                self.iter_num += 1
                tnow = time.time()
                self.iter_dt = tnow - self.iter_time
                self.iter_time = tnow


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3407)
    config = Trainer.get_default_config()
    config.merge_from_dict({"max_iters": 80})
    trainer = Trainer(config, Net(), SortDataset())
    top_score = 0

    def batch_end_callback(trainer):
        trainer.penalty = 1e-3 * (trainer.iter_num // 20)
        if trainer.iter_num % 20 == 0:
            nonlocal top_score
            with torch.no_grad():
                score = sum(float(p.norm()) for p in trainer.model.parameters())
            top_score = max(top_score, score)
            trainer.job.report(score=score)

    trainer.set_callback("on_batch_end", batch_end_callback)
    trainer.run()
    if trainer.job.is_leader:
        torch.save(trainer.model.state_dict(), sys.argv[1])


if __name__ == "__main__":
    main()
