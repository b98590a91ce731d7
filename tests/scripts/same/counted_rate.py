"""A learning rate from the script's own count of iterations, as in nanoGPT."""

import math

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model

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
        run.backward(loss)
        run.step()
        iter_num += 1
    run.report(rate=rate)
