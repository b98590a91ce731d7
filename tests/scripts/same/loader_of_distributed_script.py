"""A DistributedSampler with set_epoch, for four replicas: Swell divides the whole epoch."""

import os

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.utils.data.distributed import DistributedSampler

torch.manual_seed(int(os.environ.get("SEED", "42")))
dataset = TensorDataset(torch.randn(75, 8), torch.randint(0, 4, (75,)))
sampler = DistributedSampler(dataset, num_replicas=4, rank=0, shuffle=True, seed=7)
loader = DataLoader(dataset, batch_size=12, sampler=sampler, pin_memory=False, drop_last=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80)
run = train.elastic(model, optimizer, loader, epochs=14, scheduler=scheduler)
for epoch in run.epochs():
    sampler.set_epoch(epoch)
    model.train()
    for images, targets in run.batches():
        loss = nn.functional.cross_entropy(model(images), targets)
        optimizer.zero_grad(set_to_none=True)
        run.backward(loss)
        run.step()
