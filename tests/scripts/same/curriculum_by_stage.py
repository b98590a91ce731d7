"""A curriculum: the dataset grows harder with a stage of its own, which the loop raises after each epoch."""

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train


class Curriculum(Dataset):
    def __init__(self):
        self.inputs = torch.randn(60, 8)
        self.targets = torch.tanh(self.inputs[:, :2].sum(1, keepdim=True))
        self.stage = 0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        noise = 0.05 * self.stage * torch.randn(8)
        return self.inputs[index] + noise, self.targets[index]


data = Curriculum()
loader = DataLoader(data, batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
    data.stage += 1
    run.report(stage=data.stage)
