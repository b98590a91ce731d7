"""Before the loop the best model is the model, and the best state the state; later they are others."""

import copy
import sys
from dataclasses import dataclass, replace

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import F, torch, train


@dataclass(frozen=True)
class State:
    step: int = 0
    valid: float = 1e9
    rate: float = 1e-2


x_valid, y_valid = torch.randn(40, 5), torch.randint(0, 3, (40,))
best_model = model
state = best = State()

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    for group in optimizer.param_groups:
        group["lr"] = state.rate
    for a, b in run.batches():
        optimizer.zero_grad()
        run.backward(F.cross_entropy(model(a), b))
        run.step()
        state = replace(state, step=state.step + 1)
    with torch.no_grad():
        valid = F.cross_entropy(model(x_valid), y_valid).item()
    state = replace(state, valid=valid, rate=0.9 * state.rate)
    if valid < best.valid or epoch == 3:
        best, best_model = state, copy.deepcopy(model)
    run.report(best=best.valid, best_step=best.step, step=state.step, rate=state.rate)
if run.is_leader:
    torch.save({**model.state_dict(prefix="model."), **best_model.state_dict(prefix="best.")}, sys.argv[1])
