"""CutMix or mixup of a batch with itself, with np.random.beta and torch's Beta, and deterministic=True."""

import random

from tests.scripts.common import DataLoader, F, TensorDataset, nn, np, torch, train
from torch.distributions import Beta

x = torch.randn(60, 1, 6, 6)
y = (x[:, 0, :3].mean((1, 2)) > x[:, 0, 3:].mean((1, 2))).long()
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
beta = Beta(torch.tensor(0.4), torch.tensor(0.4))


def mixup(images, labels):
    lam = np.random.beta(0.2, 0.2)
    order = torch.randperm(images.size(0))
    return lam * images + (1 - lam) * images[order], labels, labels[order], lam


def cutmix(images, labels):
    lam, order = beta.sample().item(), torch.randperm(images.size(0))
    size = int(6 * (1 - lam) ** 0.5)
    top, left = random.randint(0, 6 - size), np.random.randint(0, 7 - size)
    images = images.clone()
    images[:, :, top : top + size, left : left + size] = images[
        order, :, top : top + size, left : left + size
    ]
    return images, labels, labels[order], 1 - size * size / 36


run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True, shards=4)
for _ in run.epochs():
    for images, labels in run.batches():
        mix = mixup if random.random() < 0.5 else cutmix
        images, one, other, lam = mix(images, labels)
        optimizer.zero_grad()
        out = model(images)
        loss = lam * F.cross_entropy(out, one) + (1 - lam) * F.cross_entropy(out, other)
        run.backward(loss)
        run.step()
