"""A cosine with warm-up by LambdaLR, whose function counts its calls in a closure."""

import math

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train
from torch.optim.lr_scheduler import LambdaLR

x = torch.randn(60, 8)
y = torch.sin(x[:, :1])


def cosine_with_warmup(warmup, total):
    calls = 0

    def factor(_):
        nonlocal calls
        calls += 1
        if calls < warmup:
            return calls / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (calls - warmup) / (total - warmup))))

    return factor


model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
scheduler = LambdaLR(optimizer, cosine_with_warmup(5, 80))
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)

run = train.elastic(model, optimizer, loader, epochs=16, scheduler=scheduler)
for _ in run.epochs():
    for inputs, targets in run.batches():  # differs: script-state
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
