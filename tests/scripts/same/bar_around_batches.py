"""A progress bar of the script's own goes through the batches, another one in each epoch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Bar:
    def __init__(self, batches, text):
        self.batches, self.text, self.n, self.shown = batches, text, 0, {}

    def __iter__(self):
        for batch in self.batches:
            yield batch
            self.n += 1
        print(self.text, self.n, self.shown)


x = torch.randn(60, 6)
y = x.sum(1, keepdim=True).sin()
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    bar = Bar(run.batches(), f"epoch {epoch}")
    for a, b in bar:
        optimizer.zero_grad()
        loss = run.backward(nn.functional.mse_loss(model(a), b))
        run.step()
        bar.shown = {"loss": loss}
