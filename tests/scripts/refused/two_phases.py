"""Training in two phases, each with a run of its own: the job trains the first one."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


def fit(model, data, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, 12, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=epochs)  # refused: elastic() was called twice
    for _ in run.epochs():
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            run.backward(loss)
            run.step()


data = TensorDataset(torch.randn(60, 5), torch.randint(0, 3, (60,)))
model = nn.Linear(5, 3)
fit(model, data, 4)
fit(model, data, 2)
