"""Transfer learning: the backbone is frozen at first, and fine-tuned from the third epoch on."""

from tests.scripts.common import nn, torch, train
from tests.scripts.transfer import backbone, loader, model, x, y

optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 2:
        for parameter in backbone.parameters():
            parameter.requires_grad = True
    if epoch == 9:  # the first layer is good enough
        for parameter in backbone[0].parameters():
            parameter.requires_grad = False
    for features, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(accuracy=(model(x).argmax(1) == y).double().mean())
