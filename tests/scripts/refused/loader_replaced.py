"""A loader of more samples that is made at the head of an epoch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(120, 5)
y = x.sum(1, keepdim=True)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)


def main():
    loader = DataLoader(TensorDataset(x[:60], y[:60]), batch_size=12, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=16)
    for epoch in run.epochs():
        if epoch == 2:
            loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
        for a, b in run.batches():  # refused: `loader` holds another DataLoader than elastic() got
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            run.backward(loss)
            run.step()


main()
