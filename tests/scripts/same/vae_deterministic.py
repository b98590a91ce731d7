"""A VAE that draws its noise in the forward pass, with deterministic=True."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class VAE(nn.Module):
    def __init__(self, dim=10, hidden=16, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * (0.5 * logvar).exp()

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
loader = DataLoader(TensorDataset(torch.rand(72, 10)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14, deterministic=True, shards=4)
for _ in run.epochs():
    for (x,) in run.batches():
        recon, mu, logvar = model(x)
        kld = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        loss = F.mse_loss(recon, x) + 0.01 * kld
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
    run.report(spread=float(sum(p.detach().std() for p in model.parameters())))
