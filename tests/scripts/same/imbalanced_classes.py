"""A classifier of rare classes, with weights by their frequency and label smoothing off."""

from tests.scripts.common import DataLoader, TensorDataset, nn, optim, torch, train


def accuracy_by_class(model, x, y):
    with torch.no_grad():
        guess = model(x).argmax(1)
    return {f"recall_{c}": (guess[y == c] == c).double().mean().item() for c in range(3)}


features = torch.randn(80, 6)
classes = torch.bucketize(features[:, 0] + 0.2 * torch.randn(80), torch.tensor([0.9, 1.5]))
frequency = torch.bincount(classes, minlength=3)
class_weight = len(classes) / (3 * frequency.double())

model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 3))
optimizer = optim.RMSprop(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss(weight=class_weight)
run = train.elastic(
    model, optimizer, DataLoader(TensorDataset(features, classes), 12, shuffle=True), epochs=11
)
for _ in run.epochs():
    for x, y in run.batches():
        loss = criterion(model(x), y)
        model.zero_grad()
        run.backward(loss, weight=class_weight[y].sum())
        run.step()
    run.report(**accuracy_by_class(model, features, classes))
