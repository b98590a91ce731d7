"""Stays near its first weights, of which it has copies in `run.state`; has a module that is not saved."""

import copy

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model


class Unsaved(torch.nn.Module):
    def state_dict(self, *args, **options):
        raise NotImplementedError


unsaved = Unsaved()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, loader, epochs=12)
first = run.state.setdefault("first", {name: value.clone() for name, value in model.state_dict().items()})


def main():
    teacher = run.state.setdefault("teacher", copy.deepcopy(model).eval())
    for _ in run.epochs():
        for inputs, targets in run.batches():
            optimizer.zero_grad()
            outputs = model(inputs)
            near = sum((value - first[name]).pow(2).sum() for name, value in model.named_parameters())
            loss = F.mse_loss(outputs, targets) + 0.1 * near
            loss = loss + 0.2 * F.mse_loss(outputs, teacher(inputs).detach())
            run.backward(loss)
            run.step()
        run.report(near=near.item())


main()
