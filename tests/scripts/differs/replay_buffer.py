"""A replay buffer: each batch goes into a deque, and the step learns from a random.sample of that."""

import random
from collections import deque

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

states, actions, rewards = torch.randn(60, 4), torch.randint(0, 2, (60, 1)), torch.rand(60, 1)
loader = DataLoader(TensorDataset(states, actions, rewards), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
buffer = deque(maxlen=500)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for s, a, r in run.batches():
        buffer.extend(zip(s, a, r))
        s, a, r = map(torch.stack, zip(*random.sample(buffer, min(8, len(buffer)))))
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(s).gather(1, a), r)
        run.backward(loss)  # differs: hidden-state
        run.step()
