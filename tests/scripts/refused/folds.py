"""Cross-validation: a run of its own for each fold."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
for fold in range(3):
    kept = torch.arange(60) % 3 != fold
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x[kept], y[kept]), batch_size=12, shuffle=True)
    run = train.elastic(model, optimizer, loader, steps=5)  # refused: elastic() was called twice
    for _ in run.epochs():
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            run.backward(loss)
            run.step()
            if run.steps == 5:
                break
        break
