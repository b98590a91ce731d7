"""Two updates for each batch."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        run.step(loss)
        nn.functional.cross_entropy(model(a), b).backward()
        run.step(loss)  # refused: run.step(loss) without a batch
