"""A VAE that counts its KL weight up by itself, in `run.state`, with the history of its epochs."""

import sys

from tests.scripts.common import DataLoader, Dataset, nn, torch, train


class WithNoise(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], torch.randn(2)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(7, 4), nn.Linear(2, 7)

    def forward(self, x, eps):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        return self.decoder(mu + eps * torch.exp(logvar / 2)), mu, logvar


def main(path):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(WithNoise(torch.randn(60, 7)), batch_size=12, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=16)
    run.state.setdefault("beta", 0.0)
    run.state.setdefault("kl_by_epoch", [])
    for _ in run.epochs():
        for x, eps in run.batches():
            run.state["beta"] = min(1.0, run.state["beta"] + 0.02)
            recon, mu, logvar = model(x, eps)
            kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
            loss = ((recon - x) ** 2).sum(1).mean() + run.state["beta"] * kl
            optimizer.zero_grad()
            mean_loss = run.backward(loss)
            run.step()
        run.state["kl_by_epoch"] = [*run.state["kl_by_epoch"], mean_loss.item()]
        run.report(beta=run.state["beta"], epochs=len(run.state["kl_by_epoch"]))
        run.report(mean_of_all=sum(run.state["kl_by_epoch"]) / len(run.state["kl_by_epoch"]))
    if run.is_leader:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main(sys.argv[1])
