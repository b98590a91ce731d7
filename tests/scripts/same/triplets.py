"""Metric learning with triplets that the dataset draws, so that each sample has its own loss."""

import random

from tests.scripts.common import DataLoader, Dataset, nn, torch, train

FEATURES = torch.randn(60, 8)
CLASSES = torch.arange(60) % 4
BY_CLASS = {c: [i for i in range(60) if i % 4 == c] for c in range(4)}


class Triplets(Dataset):
    def __len__(self):
        return len(FEATURES)

    def __getitem__(self, anchor):
        own = int(CLASSES[anchor])
        positive = random.choice([i for i in BY_CLASS[own] if i != anchor])
        negative = random.choice(BY_CLASS[random.choice([c for c in range(4) if c != own])])
        return FEATURES[anchor], FEATURES[positive], FEATURES[negative]


embed = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
criterion = nn.TripletMarginLoss(margin=1.0)
optimizer = torch.optim.RMSprop(embed.parameters(), lr=1e-3)
run = train.elastic(embed, optimizer, DataLoader(Triplets(), batch_size=12, shuffle=True), steps=80)
for _ in run.epochs():
    for a, p, n in run.batches():
        loss = criterion(embed(a), embed(p), embed(n))
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
