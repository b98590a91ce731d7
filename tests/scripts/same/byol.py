"""Self-supervision without negatives: a target network follows with a rate that grows, both in the module."""

import copy
import math

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train


class TwoViews(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(5), self.x[i] * (1 + 0.1 * torch.randn(1))


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LayerNorm(h), nn.ReLU(), nn.Linear(h, o))


class EMA:
    def __init__(self, beta):
        self.base, self.beta, self.k, self.K = beta, beta, 0, 80

    def update_average(self, old, new):
        return old * self.beta + (1 - self.beta) * new

    def tick(self):
        self.k += 1
        self.beta = 1 - (1 - self.base) * (math.cos(math.pi * self.k / self.K) + 1) / 2


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = mlp(5, 16, 8)
        self.predictor = mlp(8, 16, 8)
        self.target = copy.deepcopy(self.online)
        self.target.requires_grad_(False)
        self.updater = EMA(0.9)

    def update_moving_average(self):
        for c, m in zip(self.online.parameters(), self.target.parameters()):
            m.data = self.updater.update_average(m.data, c.data)
        self.updater.tick()

    def forward(self, a, b):
        with torch.no_grad():
            ta, tb = self.target(a), self.target(b)
        pa, pb = self.predictor(self.online(a)), self.predictor(self.online(b))
        loss = 2 - 2 * F.cosine_similarity(pa, tb) + 2 - 2 * F.cosine_similarity(pb, ta)
        return loss.mean()


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    x = torch.randn(120, 5)
    learner = BYOL()
    opt = torch.optim.Adam(learner.parameters(), lr=3e-3)
    loader = DataLoader(TwoViews(x), batch_size=12, shuffle=True)
    run = train.elastic(learner, opt, loader, epochs=8)
    for _ in run.epochs():
        for a, b in run.batches():
            loss = learner(a, b)
            opt.zero_grad()
            run.backward(loss)
            run.step()
            if run.has_stepped:
                learner.update_moving_average()


main()
