"""A critic that each worker trains by itself, with an optimizer that elastic does not get."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
model, critic = nn.Linear(5, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
critics = torch.optim.SGD(critic.parameters(), lr=1e-1)
loader = DataLoader(TensorDataset(x), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for (real,) in run.batches():
        critics.zero_grad()
        (critic(model(real).detach()).mean() - critic(real).mean()).backward()
        critics.step()
        optimizer.zero_grad()
        run.backward(-critic(model(real)).mean())  # differs: hidden-state
        run.step()
