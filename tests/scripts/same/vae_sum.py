"""A variational autoencoder as in torch's own examples: the loss is summed over the batch."""

import argparse

from tests.scripts.common import DataLoader, F, nn, optim, torch, train

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--batch-size", type=int, default=12)
args = parser.parse_args()


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 16)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


data = (torch.rand(60, 16) < torch.rand(60, 1)).double()
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)

run = train.elastic(model, optimizer, loader, epochs=10, loss_reduction="sum", deterministic=True, shards=4)
for _ in run.epochs():
    model.train()
    train_loss = 0.0
    for batch in run.batches():
        optimizer.zero_grad()
        recon, mu, logvar = model(batch)
        loss = loss_function(recon, batch, mu, logvar)
        total = run.backward(loss)
        run.step()
        if run.has_stepped:
            train_loss += total.item()
    run.report(last_batch=total)

if run.is_leader:
    torch.save(model.state_dict(), args.out)
