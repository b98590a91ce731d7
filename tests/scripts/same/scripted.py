"""A model that torch.jit.script has compiled, with buffers; it evaluates from an epoch on."""

import warnings

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 6))
        self.register_buffer("num_passes", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.num_passes += 1.0
        return x * self.scale / (1.0 + 0.01 * self.num_passes)


warnings.simplefilter("ignore", DeprecationWarning)
model = torch.jit.script(nn.Sequential(nn.Linear(6, 6), Gate(), nn.Tanh(), nn.Linear(6, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(60, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 5:
        model.eval()
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
