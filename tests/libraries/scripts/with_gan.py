"""Two models with an optimizer each, which step in turn in each batch."""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

final = Path(sys.argv[1])
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
real = torch.randn(96, 2) * 0.3 + 1.0
noise = torch.randn(96, 4)
generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (generator, critic)]
loader = DataLoader(TensorDataset(real, noise), batch_size=12)
generator, critic, *optimizers, loader = accelerator.prepare(generator, critic, *optimizers, loader)
step_generator, step_critic = optimizers
judge = nn.functional.softplus
for _ in accelerator.epochs(10) if hasattr(accelerator, "epochs") else range(10):
    for samples, drawn in loader:
        step_critic.zero_grad()
        loss = (judge(-critic(samples)) + judge(critic(generator(drawn).detach()))).mean()
        accelerator.backward(loss)
        step_critic.step()
        step_generator.zero_grad()
        accelerator.backward(judge(-critic(generator(drawn))).mean())
        step_generator.step()
if accelerator.is_main_process:
    models = {"generator": generator, "critic": critic}
    torch.save(
        {f"{name}.{key}": value for name in models for key, value in models[name].state_dict().items()}, final
    )
