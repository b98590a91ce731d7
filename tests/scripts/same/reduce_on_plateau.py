"""ReduceLROnPlateau, kept in `state` and stepped by the validation loss, which all workers compute."""

from tests.scripts.common import DataLoader, TensorDataset, nn, random_split, torch, train

x = torch.randn(90, 5)
full = TensorDataset(x, (x**2).sum(1, keepdim=True))
train_set, val_set = random_split(full, [72, 18])
train_loader, val_loader = DataLoader(train_set, 12, shuffle=True), DataLoader(val_set, 6)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
criterion = nn.MSELoss()


@torch.no_grad()
def validate():
    model.eval()
    total = sum(criterion(model(a), b).item() * len(a) for a, b in val_loader)
    model.train()
    return total / len(val_set)


run = train.elastic(model, optimizer, train_loader, epochs=14, state={"plateau": scheduler})
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(a), b)
        run.backward(loss)
        run.step()
    val_loss = validate()
    scheduler.step(val_loss)
    run.report(val_loss=val_loss, lr=optimizer.param_groups[0]["lr"])
