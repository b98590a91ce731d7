"""A buffer that follows the mean of the batches and goes into the loss."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x):
        out = self.layer(x)
        centred = out - self.centre
        self.centre = 0.9 * self.centre + 0.1 * out.detach().mean(0)
        return centred


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = Centred()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)  # differs: batch-buffer
        run.step()
