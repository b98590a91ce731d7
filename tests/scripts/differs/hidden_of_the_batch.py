"""A language model that carries its hidden state from one batch to the next, as the classic example does."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

tokens = torch.randint(0, 20, (12 * 12, 9))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.recurrent = nn.GRU(8, 16, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, x, hidden):
        out, hidden = self.recurrent(self.embedding(x), hidden)  # differs: part-of-batch
        return self.head(out), hidden


model = LanguageModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), batch_size=12, drop_last=True)
run = train.elastic(model, optimizer, loader, epochs=10)
for _ in run.epochs():
    hidden = None
    for x, y in run.batches():
        if hidden is not None:
            hidden = hidden.detach()
        out, hidden = model(x, hidden)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
