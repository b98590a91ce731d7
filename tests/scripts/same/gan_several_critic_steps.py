"""A Wasserstein GAN: two clipped steps of the critic a batch, one of the generator in each third."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

real, noise = torch.randn(75, 4).cumsum(1), torch.randn(75, 3)
generator = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.RMSprop(generator.parameters(), lr=2e-3)
opt_c = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(real, noise), batch_size=12, shuffle=True)
nets = {"generator": generator, "critic": critic}
run = train.elastic(nets, {"generator": opt_g, "critic": opt_c}, loader, epochs=12)
for _ in run.epochs():
    for x, z in run.batches():
        for _ in range(2):
            opt_c.zero_grad(set_to_none=False)
            loss_c = critic(generator(z).detach()).mean() - critic(x).mean()
            run.backward(loss_c)
            torch.nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
            run.step(opt_c)
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-0.3, 0.3)
        if run.steps % 3 == 0:
            opt_g.zero_grad(set_to_none=False)
            loss_g = -critic(generator(z)).mean()
            run.backward(loss_g)
            run.step(opt_g)
if run.is_leader:
    state = {**generator.state_dict(prefix="g."), **critic.state_dict(prefix="c.")}
    torch.save(state, sys.argv[1])
