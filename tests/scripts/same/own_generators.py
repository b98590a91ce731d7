"""The loop draws from generators that the script has made, with a seed and without."""

import random

from tests.scripts.common import F, np, torch, train
from tests.scripts.regression import loader, model

optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
seeded, unseeded, plain = np.random.default_rng(5), np.random.default_rng(), random.Random()
noise = torch.Generator().manual_seed(1)

run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        shift = 0.1 * torch.randn(8, generator=noise)
        weight = 1 + 0.1 * (seeded.random() + unseeded.random() + plain.random())
        loss = weight * F.mse_loss(model(inputs + shift), targets)
        run.backward(loss)
        run.step()
