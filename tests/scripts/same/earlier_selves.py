"""Distils from its earlier selves, in a list and a dict that grow; its optimizer counts in an attribute."""

import copy

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model
from torch.func import functional_call


class Decaying(torch.optim.SGD):
    num_steps = 0

    def step(self, closure=None):
        self.num_steps += 1
        self.param_groups[0]["lr"] = 0.05 / self.num_steps**0.5
        super().step(closure)


optimizer = Decaying(model.parameters(), lr=0.05)
selves, others = [], {}
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = F.mse_loss(outputs, targets)
        for earlier in (*selves, *others.values()):
            loss = loss + 0.2 * F.mse_loss(outputs, functional_call(model, earlier, inputs).detach())
        run.backward(loss)
        run.step()
    if epoch < 3:
        selves.append(copy.deepcopy(model.state_dict()))
        others[epoch] = copy.deepcopy(model.state_dict())
    run.report(selves=len(selves), others=len(others))
