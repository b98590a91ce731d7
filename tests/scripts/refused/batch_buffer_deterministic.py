"""A running mean of activations in a buffer, with deterministic=True."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x):
        out = self.layer(x)
        self.centre.lerp_(out.mean(0).detach(), 0.1)
        return out - self.centre


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = Centred()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True, shards=4)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)  # refused: centre
        run.step()
