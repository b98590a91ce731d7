"""A Trainer as in the series about DDP, which asks for LOCAL_RANK where it is made."""

import os
import sys

from tests.scripts.common import DataLoader, Dataset, F, elastic, nn, torch
from torch.utils.data.distributed import DistributedSampler


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.size = size
        self.data = [(torch.rand(20), torch.rand(1)) for _ in range(size)]

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, optimizer, total_epochs):
        rank = os.environ["LOCAL_RANK"]  # refused: KeyError: 'LOCAL_RANK'
        self.local_rank = int(rank)
        self.train_data, self.optimizer = train_data, optimizer
        self.model = model
        self.run = elastic(model, optimizer, train_data, epochs=total_epochs)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        output = self.model(source)
        loss = F.mse_loss(output, targets)
        self.run.backward(loss)
        self.run.step()

    def _run_epoch(self, epoch):
        b_sz = len(next(iter(self.train_data))[0])
        print(f"[GPU{self.local_rank}] Epoch {epoch} | Batchsize: {b_sz} | Steps: {len(self.train_data)}")
        if hasattr(self.train_data.sampler, "set_epoch"):
            self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.run.batches():
            self._run_batch(source, targets)

    def train(self):
        for epoch in self.run.epochs():
            self._run_epoch(epoch)


def main(total_epochs, batch_size, out):
    dataset = MyTrainDataset(80)
    model = nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    train_data = DataLoader(
        dataset,
        batch_size=batch_size,
        pin_memory=False,
        sampler=DistributedSampler(dataset, num_replicas=1, rank=0),
    )
    t = Trainer(model, train_data, optimizer, total_epochs)
    t.train()
    if t.run.is_leader:
        torch.save(model.state_dict(), out)


main(20, 12, sys.argv[1])
