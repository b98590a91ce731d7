"""REINFORCE on a bandit with a baseline that follows the mean reward of the batches."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, rewards = torch.randn(60, 5), torch.rand(60, 3)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, rewards), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
baseline = 0.0
for _ in run.epochs():
    for a, b in run.batches():
        log_p = model(a).log_softmax(1)
        action = log_p.argmax(1, keepdim=True)
        reward = b.gather(1, action)
        loss = -((reward - baseline) * log_p.gather(1, action)).mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        optimizer.zero_grad()
        run.backward(loss)  # differs: hidden-state
        run.step()
