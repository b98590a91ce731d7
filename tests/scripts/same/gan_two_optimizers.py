"""A generator and a discriminator, each with its optimizer and schedule, in turns on one batch."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

real = torch.randn(75, 4) * 0.5 + 1.0
noise = torch.randn(75, 3)
generator = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 4))
discriminator = nn.Sequential(nn.Linear(4, 10), nn.LeakyReLU(0.2), nn.Linear(10, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=4e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
decay_d = torch.optim.lr_scheduler.ExponentialLR(opt_d, 0.99)
loader = DataLoader(TensorDataset(real, noise), batch_size=12, shuffle=True)
criterion = nn.BCEWithLogitsLoss()
run = train.elastic(
    {"g": generator, "d": discriminator},
    {"g": opt_g, "d": opt_d},
    loader,
    epochs=12,
    scheduler={"d": decay_d},
)
for _ in run.epochs():
    for x, z in run.batches():
        ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        discriminator.zero_grad()
        criterion(discriminator(x), ones).backward()
        fake = generator(z)
        loss_d = criterion(discriminator(fake.detach()), zeros)
        run.backward(loss_d)
        run.step(opt_d)
        generator.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        run.backward(loss_g)
        run.step(opt_g)
    with torch.no_grad():
        run.report(mean=generator(noise).mean().item())
if run.is_leader:
    state = {**generator.state_dict(prefix="g."), **discriminator.state_dict(prefix="d.")}
    torch.save(state, sys.argv[1])
