"""A denoising diffusion model; the time step and the noise are drawn with the sample."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train

T = 20
betas = torch.linspace(1e-4, 0.2, T)
alphas_bar = torch.cumprod(1 - betas, 0)


class Moons(Dataset):
    def __init__(self, n):
        angle = torch.linspace(0, 6.28, n)
        self.points = torch.stack([angle.cos(), angle.sin() * 0.5], dim=1)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i], torch.randint(0, T, ()), torch.randn(2)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T, 8)
        self.net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], dim=1))


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
run = train.elastic(model, optimizer, DataLoader(Moons(96), batch_size=12, shuffle=True), epochs=10)
for _ in run.epochs():
    for x0, t, eps in run.batches():
        a = alphas_bar[t].unsqueeze(1)
        predicted = model(a.sqrt() * x0 + (1 - a).sqrt() * eps, t)
        loss = nn.functional.mse_loss(predicted, eps)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
