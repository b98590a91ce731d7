"""A learning rate from the script's own count of iterations, as in nanoGPT."""

import math

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 8)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
warmup, decay = 10, 70
iter_num = 0


def rate_at(number):
    if number < warmup:
        return 1e-2 * (number + 1) / warmup
    part = min(1.0, (number - warmup) / (decay - warmup))
    return 1e-3 + 0.5 * (1.0 + math.cos(math.pi * part)) * 9e-3


run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for inputs, targets in run.batches():
        rate = rate_at(iter_num)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.mse_loss(model(inputs), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        run.step(loss)
        iter_num += 1
    run.report(rate=rate)
