"""A VAE whose KL weight grows with run.steps, in cycles; noise drawn with the sample."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train


class Data(Dataset):
    def __init__(self):
        self.x = torch.randn(60, 8)

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return self.x[i], torch.randn(2)


encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
vae = nn.ModuleDict(dict(encoder=encoder, decoder=decoder))
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2)
run = train.elastic(vae, optimizer, DataLoader(Data(), batch_size=12, shuffle=True), epochs=16)
for _ in run.epochs():
    for x, eps in run.batches():
        beta = min(1.0, (run.steps % 40) / 20)
        mu, logvar = encoder(x).chunk(2, dim=1)
        recon = decoder(mu + eps * (logvar / 2).exp())
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        loss = ((recon - x) ** 2).sum(1).mean() + beta * kl
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
    run.report(beta=min(1.0, (run.steps % 40) / 20))
