"""Weights and moments that are loaded between elastic and the loop, into a model and a part of it."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(60, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(3)
pretrained = {
    name: torch.randn(value.shape, generator=generator) for name, value in model.state_dict().items()
}
run = train.elastic(model, optimizer, loader, epochs=16)
model.load_state_dict(pretrained)
model[2].load_state_dict({"weight": torch.full((1, 8), 0.1), "bias": torch.zeros(1)})
optimizer.load_state_dict(torch.optim.Adam(model.parameters(), lr=5e-3).state_dict())
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
