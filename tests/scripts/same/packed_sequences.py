"""Sequences of several lengths: padded by a collate_fn, packed for the GRU, classified by the last state."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class Names(Dataset):
    def __init__(self, n=72):
        self.items = [torch.randint(1, 15, (int(torch.randint(3, 10, ())),)) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i], int(self.items[i][0] > 7)


def pad(batch):
    names, labels = zip(*batch, strict=True)
    return pad_sequence(names, batch_first=True), torch.tensor([len(n) for n in names]), torch.tensor(labels)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(15, 6, padding_idx=0)
        self.gru = nn.GRU(6, 10, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(20, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.fc(torch.cat([h[0], h[1]], dim=1))


model = Tagger()
opt = torch.optim.Adam(model.parameters(), 5e-3)
run = train.elastic(model, opt, DataLoader(Names(), 12, shuffle=True, collate_fn=pad), epochs=14)
for _ in run.epochs():
    for x, lengths, y in run.batches():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x, lengths), y)
        run.backward(loss)
        run.step()
