"""Gradient checkpointing of residual blocks."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, x):
        return x + self.net(x)


class Deep(nn.Module):
    def __init__(self, dim=8, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(60, 8), torch.randint(0, 3, (60,))), 12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for x, y in run.batches():
        loss = nn.functional.cross_entropy(model(x), y)
        run.backward(loss)
        run.step()
        optimizer.zero_grad()
