"""Lookahead around Adam: an optimizer that wraps another one and keeps slow weights."""

from collections import defaultdict

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model
from torch.optim import Optimizer


class Lookahead(Optimizer):
    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha = base, k, alpha
        self.param_groups, self.defaults = base.param_groups, base.defaults
        self.state = defaultdict(dict)
        for group in self.param_groups:
            group["counter"] = 0

    def step(self, closure=None):
        loss = self.base.step(closure)
        for group in self.param_groups:
            group["counter"] += 1
            if group["counter"] % self.k == 0:
                for fast in group["params"]:
                    state = self.state[fast]
                    if "slow" not in state:
                        state["slow"] = fast.data.clone()
                    state["slow"] += self.alpha * (fast.data - state["slow"])
                    fast.data.copy_(state["slow"])
        return loss

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    def state_dict(self):
        slow = [self.state[p].get("slow") for group in self.param_groups for p in group["params"]]
        return {"base": self.base.state_dict(), "slow": slow}

    def load_state_dict(self, state):
        self.base.load_state_dict(state["base"])
        self.param_groups = self.base.param_groups
        parameters = [p for group in self.param_groups for p in group["params"]]
        for parameter, slow in zip(parameters, state["slow"]):
            if slow is not None:
                self.state[parameter]["slow"] = slow.clone()


optimizer = Lookahead(torch.optim.Adam(model.parameters(), lr=1e-2))
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
