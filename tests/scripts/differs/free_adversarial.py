"""Free adversarial training: one perturbation goes on from batch to batch."""

from tests.scripts.common import DataLoader, F, TensorDataset, elastic, nn, torch

model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.rand(72, 6), torch.randint(0, 3, (72,))
run = elastic(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True), epochs=20)
delta = torch.zeros(12, 6)
delta.requires_grad = True
for _epoch in run.epochs():
    for a, b in run.batches():
        loss = F.cross_entropy(model(a + delta[: a.size(0)]), b)
        optimizer.zero_grad()
        run.backward(loss)  # differs: hidden-state
        delta.data = (delta + 0.05 * delta.grad.sign()).clamp(-0.1, 0.1)
        run.step()
        delta.grad.zero_()
