"""Sentences of nearly one length make up a batch, so batches have 6 to 24 of them, in random order."""

import random

from tests.scripts.common import DataLoader, Sampler, nn, torch, train
from torch.nn.utils.rnn import pad_sequence

lengths = [random.randint(2, 20) for _ in range(150)]
data = [(torch.randint(1, 20, (length,)), length % 2) for length in lengths]


class TokenBatches(Sampler):
    """As many sentences as have no more than so many tokens, padding included."""

    def __init__(self, lengths, max_tokens):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches = [[]]
        for index in order:
            if self.batches[-1] and lengths[index] * (len(self.batches[-1]) + 1) > max_tokens:
                self.batches.append([])
            self.batches[-1].append(index)

    def __iter__(self):
        random.shuffle(self.batches)
        yield from self.batches

    def __len__(self):
        return len(self.batches)


def collate(samples):
    tokens, labels = zip(*samples, strict=True)
    return pad_sequence(list(tokens), batch_first=True), torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        used = (tokens != 0).sum(1, keepdim=True)
        return self.head(self.embedding(tokens).sum(1) / used)


loader = DataLoader(data, batch_sampler=TokenBatches(lengths, 120), collate_fn=collate)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for tokens, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        run.backward(loss)
        run.step()
