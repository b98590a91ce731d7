"""An encoder and a decoder with attention and teacher forcing, on sequences that are to be reversed."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

SOS = 9


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(10, 8), nn.GRU(8, 12, batch_first=True)

    def forward(self, src):
        return self.rnn(self.embedding(src))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.out = nn.Embedding(10, 8), nn.GRUCell(20, 12), nn.Linear(12, 10)

    def forward(self, token, hidden, memory):
        scores = torch.bmm(memory, hidden.unsqueeze(2)).softmax(1)
        context = (scores * memory).sum(1)
        hidden = self.cell(torch.cat([self.embedding(token), context], 1), hidden)
        return self.out(hidden), hidden


src = torch.randint(0, 9, (60, 4))
encoder, decoder = Encoder(), Decoder()
both = nn.ModuleList([encoder, decoder])
optimizer = torch.optim.Adam(both.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(src, src.flip(1)), batch_size=12, shuffle=True)
run = train.elastic(both, optimizer, loader, epochs=16)
for _ in run.epochs():
    for source, target in run.batches():
        memory, hidden = encoder(source)
        hidden, token, loss = hidden[0], torch.full((len(source),), SOS), 0.0
        for t in range(target.shape[1]):
            logits, hidden = decoder(token, hidden, memory)
            loss = loss + nn.functional.cross_entropy(logits, target[:, t])
            token = target[:, t]
        optimizer.zero_grad()
        run.backward(loss)
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        run.step()
