"""The learning rate is set by hand in each step from run.steps, as nanoGPT does from its own counter."""

import math

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

warmup_iters, lr_decay_iters, learning_rate, min_lr = 10, 80, 1e-2, 1e-3


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * decay_ratio)) * (learning_rate - min_lr)


model = nn.Sequential(nn.Linear(4, 20), nn.Tanh(), nn.Linear(20, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
x = torch.randn(72, 4)
loader = DataLoader(TensorDataset(x, x.roll(1, 1)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14)
for _ in run.epochs():
    for a, b in run.batches():
        lr = get_lr(run.steps)
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
        optimizer.zero_grad(set_to_none=True)
    run.report(lr=get_lr(run.steps))
