"""A dataset to which samples are added after each epoch."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train

x = torch.randn(600, 5)


class Pool(Dataset):
    def __init__(self):
        self.num = 24

    def __len__(self):
        return self.num

    def __getitem__(self, index):
        return x[index], x[index].sum(0, keepdim=True)


data = Pool()
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
run = train.elastic(model, optimizer, DataLoader(data, batch_size=12, shuffle=True), epochs=16)
for _ in run.epochs():
    for a, b in run.batches():  # refused: has 36 samples now and had 24 when elastic() got it
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    data.num += 12
