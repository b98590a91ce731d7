"""A curriculum: the dataset is told the epoch, and a process of the loader's has a copy of it."""

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train

x = torch.randn(60, 6)


class Curriculum(Dataset):
    def __init__(self):
        self.stage, self.scale = 0, 1.0

    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        return x[index] * (1 + 0.1 * self.stage), x[index].sum(0, keepdim=True) * self.scale


data = Curriculum()
loader = DataLoader(data, 12, shuffle=True, num_workers=1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    data.stage = epoch
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    data.scale *= 0.9
