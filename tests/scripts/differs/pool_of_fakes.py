"""A GAN whose critic sees fakes of earlier batches, from a pool that has to fill first."""

import sys

from tests.scripts.common import DataLoader, Dataset, nn, torch, train

images = torch.randn(120, 4).cumsum(1)


class ImagesAndNoise(Dataset):
    def __len__(self):
        return len(images)

    def __getitem__(self, index):
        return images[index], torch.randn(3), torch.rand(2)


class ImagePool:
    def __init__(self, size):
        self.size, self.images = size, []

    def query(self, fakes, draws):
        chosen = []
        for fake, (coin, place) in zip(fakes.detach(), draws, strict=True):
            if len(self.images) < self.size:
                self.images.append(fake)
                chosen.append(fake)
            elif coin > 0.5:
                number = int(place * self.size)
                chosen.append(self.images[number])
                self.images[number] = fake
            else:
                chosen.append(fake)
        return torch.stack(chosen)


g = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 4))
d = nn.Sequential(nn.Linear(4, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
opt_g = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.5, 0.999))
pool = ImagePool(20)
loader = DataLoader(ImagesAndNoise(), batch_size=12, shuffle=True)

run = train.elastic({"g": g, "d": d}, {"g": opt_g, "d": opt_d}, loader, epochs=8)
for _ in run.epochs():
    for real, noise, draws in run.batches():
        fake = g(noise)
        opt_d.zero_grad()
        loss_d = ((d(real) - 1) ** 2).mean() + (d(pool.query(fake, draws)) ** 2).mean()
        run.backward(loss_d)  # differs: hidden-state
        run.step(opt_d)
        opt_g.zero_grad()
        loss_g = ((d(fake) - 1) ** 2).mean()
        run.backward(loss_g)
        run.step(opt_g)

if run.is_leader:
    torch.save({**g.state_dict(prefix="g."), **d.state_dict(prefix="d.")}, sys.argv[1])
