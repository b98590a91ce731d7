"""Lists shuffled by unseeded generators before elastic: a split by random.shuffle, noise by default_rng()."""

import random

from tests.scripts.common import DataLoader, Dataset, nn, np, torch, train

files = [f"sample_{i:03}.txt" for i in range(90)]
random.shuffle(files)
train_files, val_files = files[:72], files[72:]
projection = np.random.default_rng().normal(size=(3, 4))


class Files(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        number = int(self.names[i].split("_")[1][:3])
        features = np.array([number % 7, number % 11, number % 13]) / 10
        return torch.from_numpy(features @ projection), torch.tensor([number / 90])


model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
run = train.elastic(model, optimizer, DataLoader(Files(train_files), 12, shuffle=True), epochs=14)
validation = Files(val_files)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(val=sum(float((model(x) - y) ** 2) for x, y in validation) / len(validation))
