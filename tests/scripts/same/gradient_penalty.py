"""A critic with a gradient penalty (double backward) on interpolations drawn with the sample."""

from tests.scripts.common import DataLoader, Dataset, torch, train
from torch import autograd, nn

REAL, FAKE = torch.randn(72, 4) + 1, torch.randn(72, 4) * 0.5


class RealAndFake(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, i):
        return REAL[i], FAKE[i], torch.rand(1)


critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def gradient_penalty(real, fake, eps):
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    scores = critic(mixed)
    (grads,) = autograd.grad(scores, mixed, grad_outputs=torch.ones_like(scores), create_graph=True)
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()


run = train.elastic(critic, optimizer, DataLoader(RealAndFake(), 12, shuffle=True), epochs=14)
for _ in run.epochs():
    for real, fake, eps in run.batches():
        loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(real, fake, eps)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
