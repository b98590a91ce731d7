"""A frozen network with low-rank adapters, whose activations are computed again in the backward pass."""

from tests.scripts.common import DataLoader, RandomSampler, TensorDataset, nn, torch, train
from torch.utils.checkpoint import checkpoint

x = torch.randn(60, 8)
y = x.cos().mean(1, keepdim=True)
data = TensorDataset(x, y)


class LoraLinear(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        for parameter in base.parameters():
            parameter.requires_grad = False
        self.down = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, inputs):
        return self.base(inputs) + inputs @ self.down.T @ self.up.T


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([LoraLinear(nn.Linear(8, 8)) for _ in range(3)])
        self.head = nn.Linear(8, 1)

    def forward(self, inputs):
        for block in self.blocks:
            inputs = torch.tanh(checkpoint(block, inputs, use_reentrant=False))
        return self.head(inputs)


loader = DataLoader(data, batch_size=12, sampler=RandomSampler(data, replacement=True, num_samples=60))
model = Model()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
