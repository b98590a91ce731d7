"""A batch sampler that groups sentences by length, with its own generator and set_epoch."""

from tests.scripts.common import DataLoader, Sampler, nn, torch, train
from torch.nn.utils.rnn import pad_sequence


class LengthGroupedSampler(Sampler):
    def __init__(self, lengths, batch_size, mega=3):
        self.lengths, self.batch_size, self.mega, self.epoch = lengths, batch_size, mega, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        g = torch.Generator().manual_seed(1000 + self.epoch)
        order = torch.randperm(len(self.lengths), generator=g).tolist()
        size = self.mega * self.batch_size
        for start in range(0, len(order), size):
            mega = sorted(order[start : start + size], key=lambda i: self.lengths[i], reverse=True)
            for i in range(0, len(mega), self.batch_size):
                yield mega[i : i + self.batch_size]

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)


sentences = [torch.randint(1, 20, (int(n),)) for n in torch.randint(2, 12, (72,))]
lengths = [len(s) for s in sentences]


def collate(batch):
    return pad_sequence(batch, batch_first=True), torch.tensor([float(len(s)) for s in batch])


class Length(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 1)

    def forward(self, tokens):
        return self.out(torch.tanh(self.embedding(tokens)).sum(1)).squeeze(1)


sampler = LengthGroupedSampler(lengths, 12)
loader = DataLoader(sentences, batch_sampler=sampler, collate_fn=collate)
model = Length()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
run = train.elastic(model, optimizer, loader, epochs=14)
for epoch in run.epochs():
    sampler.set_epoch(epoch)
    for tokens, target in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(tokens), target)
        run.backward(loss)
        run.step()
