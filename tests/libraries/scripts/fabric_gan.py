"""Two models with an optimizer each, which step in turn in each batch, with losses that are scaled."""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

final = Path(sys.argv[1])


class Scaled(MixedPrecision):
    """Losses are scaled as with half precision, which a CPU computes too roughly to be compared."""

    def forward_context(self):
        return nullcontext()

    def convert_input(self, data):
        return data


scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=7)
fabric = Fabric(accelerator="cpu", devices=1, plugins=[Scaled("16-mixed", "cpu", scaler)])
torch.manual_seed(0)
real = torch.randn(96, 2) * 0.3 + 1.0
noise = torch.randn(96, 4)
generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
generator, step_generator = fabric.setup(generator, torch.optim.Adam(generator.parameters(), lr=0.01))
critic, step_critic = fabric.setup(critic, torch.optim.Adam(critic.parameters(), lr=0.01))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(real, noise), batch_size=12))
judge = nn.functional.softplus
for _ in fabric.epochs(10) if hasattr(fabric, "epochs") else range(10):
    for samples, drawn in loader:
        step_critic.zero_grad()
        fabric.backward((judge(-critic(samples)) + judge(critic(generator(drawn).detach()))).mean())
        fabric.clip_gradients(critic, step_critic, max_norm=0.5)
        step_critic.step()
        step_generator.zero_grad()
        fabric.backward(judge(-critic(generator(drawn))).mean())
        step_generator.step()
if fabric.is_global_zero:
    models = {"generator": generator, "critic": critic}
    learnt = {f"{name}.{key}": value for name in models for key, value in models[name].state_dict().items()}
    torch.save({**learnt, "scale": torch.tensor([scaler.get_scale()])}, final)
