"""A config that leads back to itself, logging by the leader, a subset of joined datasets, ExponentialLR."""

import logging

from tests.scripts.common import ConcatDataset, DataLoader, Subset, TensorDataset, nn, torch, train

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger(__name__)


class Config(dict):
    __getattr__ = dict.__getitem__


CONFIG = Config(model={"in": 5, "hidden": [16, 8], "out": 1}, optim=Config(lr=0.01), epochs=14, batch=12)
CONFIG["root"] = CONFIG.optim["root"] = CONFIG


def build_model(cfg):
    sizes, layers = [cfg["in"], *cfg["hidden"]], []
    for i, o in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], cfg["out"]))


def build_data():
    a = TensorDataset(torch.randn(50, 5), torch.randn(50, 1))
    b = TensorDataset(torch.randn(40, 5), torch.randn(40, 1))
    return Subset(ConcatDataset([a, b]), range(0, 90, 1))


net = build_model(CONFIG["model"])
opt = getattr(torch.optim, CONFIG.get("optimizer", "Adam"))(net.parameters(), lr=CONFIG.optim.lr)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.99)
run = train.elastic(
    net,
    opt,
    DataLoader(build_data(), CONFIG["batch"], shuffle=True),
    epochs=CONFIG["epochs"],
    scheduler=sched,
)
for epoch in run.epochs():
    for x, y in run.batches():
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        mean_loss = run.backward(loss)
        run.step()
    if run.is_leader:
        log.info("epoch %d: %.4f", epoch, mean_loss)
