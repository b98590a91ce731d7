"""A model whose backbone is frozen: what scripts of transfer learning begin with."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch

x = torch.randn(60, 10)
y = (x[:, :5].sum(1) > x[:, 5:].sum(1)).long()
backbone = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
head = nn.Linear(8, 2)
model = nn.Sequential(backbone, head)
for parameter in backbone.parameters():
    parameter.requires_grad = False
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
