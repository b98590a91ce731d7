"""Samples that cannot be read are None, and the collate_fn leaves them out: many are, all of a few."""

from tests.scripts.common import DataLoader, Dataset, F, default_collate, nn, torch, train

x = torch.randn(120, 6)
is_readable = torch.rand(120) < 0.5
is_readable[:40] = True


class Pictures(Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        return (x[index], x[index].sin().sum(0, keepdim=True)) if is_readable[index] else None


def collate(samples):
    return default_collate([sample for sample in samples if sample is not None])


model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
run = train.elastic(model, optimizer, DataLoader(Pictures(), 12, collate_fn=collate, num_workers=1), epochs=8)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
