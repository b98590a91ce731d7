"""The optimizer is made again in mid-run, to forget its moments."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import F, torch, train

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 2:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    for a, b in run.batches():  # refused: in place of one that elastic() got
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
