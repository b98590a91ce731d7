"""Gradients of each sample by torch.func, clipped one by one; their mean is put into the parameters."""

from tests.scripts.common import DataLoader, F, TensorDataset, elastic, nn, torch
from torch.func import functional_call, grad_and_value, vmap

model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x, y = torch.rand(72, 6), torch.randint(0, 3, (72,))
run = elastic(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True), epochs=20)


def compute_loss(params, buffers, sample, target):
    return F.cross_entropy(
        functional_call(model, (params, buffers), (sample.unsqueeze(0),)), target.unsqueeze(0)
    )


ft = vmap(grad_and_value(compute_loss), in_dims=(None, None, 0, 0))
for _epoch in run.epochs():
    for a, b in run.batches():
        params = {k: v.detach() for k, v in model.named_parameters()}
        buffers = {k: v.detach() for k, v in model.named_buffers()}
        grads, losses = ft(params, buffers, a, b)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        scale = (0.3 / norms).clamp(max=1)
        optimizer.zero_grad()
        for k, p in model.named_parameters():
            p.grad = torch.einsum("n,n...->...", scale, grads[k]) / len(a)
        run.backward(losses.mean())
        run.step()
