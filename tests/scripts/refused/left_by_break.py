"""Each epoch is left by `break` after three of its batches."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():  # refused: was left before its last batch
    for number, (a, b) in enumerate(run.batches()):
        if number == 3:
            break
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    optimizer.param_groups[0]["lr"] *= 0.8
