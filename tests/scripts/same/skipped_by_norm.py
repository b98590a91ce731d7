"""A step whose gradient is too large is left out: its gradients are cleared before the step."""

from tests.scripts.common import F, torch, train
from tests.scripts.regression import loader, model, y

y[:3] += 40
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
run = train.elastic(model, optimizer, loader, epochs=16)
skipped = 0
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        if torch.nn.utils.clip_grad_norm_(model.parameters(), 20.0) > 60:
            skipped += 1
            optimizer.zero_grad()
        run.step()
    run.report(skipped=skipped)
