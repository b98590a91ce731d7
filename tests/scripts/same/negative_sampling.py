"""Recommendation with BPR: the dataset draws negatives by random.sample and drops features by random."""

import random

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train

random.seed(8)


class Pairs(Dataset):
    def __init__(self, users=15, items=30, num=60):
        self.positives = {user: set(random.sample(range(items), 6)) for user in range(users)}
        self.pairs = [(user, random.choice(sorted(self.positives[user]))) for user in range(users)] * (
            num // users
        )
        self.items = list(range(items))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        user, positive = self.pairs[index]
        candidates = [item for item in random.sample(self.items, 12) if item not in self.positives[user]]
        weight = 0.0 if random.random() < 0.1 else 1.0
        return user, positive, torch.tensor(candidates[:4]), weight


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(15, 8), nn.Embedding(30, 8)

    def forward(self, user, item):
        return (self.users(user).unsqueeze(1) * self.items(item)).sum(-1)


data = Pairs()
model = Factors()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=12, shuffle=True, drop_last=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for user, positive, negatives, weight in run.batches():
        gap = model(user, positive.unsqueeze(1)) - model(user, negatives)
        loss = (weight * -F.logsigmoid(gap).mean(1)).mean()
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
