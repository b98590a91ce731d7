"""torch.func: functional_call and vmap for a per-sample loss, with gradients by backward."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.func import functional_call, vmap

net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
params = dict(net.named_parameters())


def loss_of_sample(params, x, y):
    return ((functional_call(net, params, (x.unsqueeze(0),)) - y) ** 2).squeeze()


x = torch.randn(60, 3)
loader = DataLoader(TensorDataset(x, x.pow(2).sum(1)), batch_size=12, shuffle=True)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
run = train.elastic(net, opt, loader, epochs=16)
for _ in run.epochs():
    for xb, yb in run.batches():
        opt.zero_grad()
        loss = vmap(loss_of_sample, in_dims=(None, 0, 0))(params, xb, yb).mean()
        run.backward(loss)
        run.step()
