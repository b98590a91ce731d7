"""Linear regression with SGD, Nesterov momentum and StepLR in steps, in sequential order."""

from tests.scripts.common import torch, train

g = torch.Generator().manual_seed(5)
X = torch.randn(100, 4, generator=g)
w_true = torch.tensor([1.0, -2.0, 3.0, 0.5])
y = X @ w_true + 0.1 * torch.randn(100, generator=g)

model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
loader = torch.utils.data.DataLoader(list(zip(X, y, strict=True)), batch_size=12)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3 * len(loader), gamma=0.5)
run = train.elastic(model, opt, loader, epochs=9, scheduler=sched)
for _ in run.epochs():
    for xb, yb in run.batches():
        loss = torch.nn.functional.mse_loss(model(xb).squeeze(1), yb)
        opt.zero_grad()
        run.backward(loss)
        run.step()
    rmse = ((model(X).squeeze(1) - y) ** 2).mean().sqrt()
    run.report(rmse=rmse.detach(), lr=opt.param_groups[0]["lr"])
