"""A VAE with a mean loss; the noise of its latent is drawn with the sample, so it belongs to the sample."""

from tests.scripts.common import F, nn, torch, train

LATENT = 3


class WithNoise(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], torch.randn(LATENT)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(10, 16), nn.Linear(16, LATENT), nn.Linear(16, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, 16), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, x, eps):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return torch.sigmoid(self.dec(mu + eps * torch.exp(0.5 * logvar))), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="none").sum(1)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
    return (bce + kld).mean()


data = (torch.rand(60, 10) > 0.6).double()
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
run = train.elastic(
    model, optimizer, torch.utils.data.DataLoader(WithNoise(data), batch_size=12, shuffle=True), epochs=16
)
for _ in run.epochs():
    for x, eps in run.batches():
        optimizer.zero_grad()
        loss = loss_function(*model(x, eps)[:1], x, *model(x, eps)[1:])
        run.backward(loss)
        run.step()
