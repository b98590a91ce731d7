"""A binary classifier with outliers, whose gradients are clipped by value and then by the largest one."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(66, 5)
x[::7] *= 30.0
y = (x.sum(1, keepdim=True) > 0).double()
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
head = list(model[2].parameters())
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

run = train.elastic(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True), epochs=14)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        run.backward(loss)
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        nn.utils.clip_grad_norm_(head, 0.02, norm_type="inf")
        run.step()
