"""Transfer learning by the book: the optimizer has the head, and gets each layer when it is unfrozen."""

from tests.scripts.common import nn, torch, train
from tests.scripts.transfer import backbone, head, loader, model, x, y

optimizer = torch.optim.AdamW(head.parameters(), lr=5e-3, weight_decay=1e-2)


def unfreeze(layer, lr):
    for parameter in layer.parameters():
        parameter.requires_grad = True
    optimizer.add_param_group({"params": layer.parameters(), "lr": lr})


run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 3:
        unfreeze(backbone[2], lr=2e-3)
    if epoch == 7:
        unfreeze(backbone[0], lr=1e-3)
    for features, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(accuracy=(model(x).argmax(1) == y).double().mean())
