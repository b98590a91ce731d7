"""A physics-informed network: second derivatives by autograd.grad, boundary terms in each batch."""

from tests.scripts.common import nn, torch, train

u = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
collocation = torch.linspace(0, 1, 72).unsqueeze(1)
loader = torch.utils.data.DataLoader(collocation, batch_size=12, shuffle=True)
optimizer = torch.optim.Adam(u.parameters(), lr=3e-3)
boundary = torch.tensor([[0.0], [1.0]])


def residual(x):
    x = x.clone().requires_grad_(True)
    y = u(x)
    (dy,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (d2y,) = torch.autograd.grad(dy.sum(), x, create_graph=True)
    return d2y + torch.pi**2 * torch.sin(torch.pi * x)


run = train.elastic(u, optimizer, loader, epochs=14)
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = residual(x).pow(2).mean() + 10 * u(boundary).pow(2).mean()
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(error=(u(collocation) - torch.sin(torch.pi * collocation)).abs().max())
