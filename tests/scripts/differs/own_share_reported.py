"""The accuracy of an epoch is counted in a worker's own part and divided by all samples."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import F, train

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    correct = 0
    for a, b in run.batches():
        optimizer.zero_grad()
        outputs = model(a)
        loss = F.cross_entropy(outputs, b)
        run.backward(loss)
        run.step()
        correct += int((outputs.argmax(1) == b).sum())
    run.report(accuracy=correct / len(loader.dataset))  # differs: own-share
