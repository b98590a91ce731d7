"""Gradual unfreezing: one layer after the other is trained, by the number of steps, in the loop."""

from tests.scripts.common import nn, torch, train
from tests.scripts.transfer import backbone, loader, model, x, y

optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for features, labels in run.batches():
        for layer, first_step in ((2, 13), (0, 31)):
            if run.steps >= first_step:
                backbone[layer].requires_grad_(True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(accuracy=(model(x).argmax(1) == y).double().mean())
