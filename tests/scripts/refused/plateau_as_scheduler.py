"""ReduceLROnPlateau is given as the scheduler of steps."""

from tests.scripts.classifier import loader, model, optimizer
from tests.scripts.common import nn, torch, train

scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
run = train.elastic(  # refused: ReduceLROnPlateau cannot
    model, optimizer, loader, epochs=16, scheduler=scheduler
)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
