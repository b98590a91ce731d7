"""A network with complex weights and filter, clipped by its norm, in passes of at most five samples."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6, dtype=torch.complex128)
        self.second = nn.Linear(6, 1, dtype=torch.complex128)
        self.gain = nn.Parameter(torch.ones(6))
        self.register_buffer("filter", torch.exp(1j * torch.arange(4.0)).conj())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x * self.filter) * self.gain
        y: torch.Tensor = self.second(hidden * torch.tanh(hidden.abs()))
        return y


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(60, 4, dtype=torch.complex128)
y = x @ torch.tensor([[1j], [2], [3j], [1 - 1j]], dtype=torch.complex128)
loader = DataLoader(TensorDataset(x, y), 12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, max_local_batch=5)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = (model(a) - b).abs().pow(2).mean()
        run.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        run.step()
