"""The rate is cut where the loss has not become better: the best one and the patience are state."""

import sys

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model, x, y

optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)


def main():
    run = train.elastic(model, optimizer, loader, epochs=8)
    run.state["best"] = float("inf")
    run.state["bad_epochs"] = 0
    cuts = run.state.setdefault("cuts", [])
    for epoch in run.epochs():
        for inputs, targets in run.batches():
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            run.backward(loss)
            run.step()
        with torch.no_grad():
            error = F.mse_loss(model(x), y).item()
        if error < 0.97 * run.state["best"]:
            run.state["best"], run.state["bad_epochs"] = error, 0
        else:
            run.state["bad_epochs"] += 1
        if run.state["bad_epochs"] > 1:
            run.state["bad_epochs"] = 0
            cuts.append(epoch)
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        run.report(best=run.state["best"], cuts=len(cuts))
    return run


run = main()

if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])
