"""Evaluation by the leader alone, which reports and prints; the others go on."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

X, Y = torch.randn(120, 8), torch.randint(0, 4, (120,))
train_loader = DataLoader(TensorDataset(X[:84], Y[:84]), batch_size=12, shuffle=True)
val_loader = DataLoader(TensorDataset(X[84:], Y[84:]), batch_size=9)
model = nn.Sequential(nn.Linear(8, 24), nn.Dropout(0.0), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def evaluate():
    model.eval()
    num_right = 0
    with torch.inference_mode():
        for x, y in val_loader:
            num_right += (model(x).argmax(1) == y).sum().item()
    model.train()
    return num_right / 36


run = train.elastic(model, optimizer, train_loader, epochs=12)
for epoch in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        run.backward(loss)
        run.step()
    if run.rank == 0:
        accuracy = evaluate()
        print(f"epoch {epoch}: {accuracy:.3f}")
        run.report(accuracy=accuracy)
