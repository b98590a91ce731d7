"""A layer is added in mid-run, with a parameter group of its own."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import F, nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 2:
        model.append(nn.Linear(3, 3))
        optimizer.add_param_group({"params": model[-1].parameters()})  # refused: before elastic()
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
