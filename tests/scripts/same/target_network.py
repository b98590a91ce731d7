"""Q-learning from stored transitions, with a target network in `state` that is copied every ten steps."""

import copy
import sys

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

n, gamma = 96, 0.9
states, next_states = torch.randn(n, 4), torch.randn(n, 4)
actions, rewards = torch.randint(0, 3, (n,)), torch.randn(n)
done = (torch.rand(n) < 0.1).double()
replay = DataLoader(TensorDataset(states, actions, rewards, next_states, done), batch_size=12, shuffle=True)

q = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
q_target = copy.deepcopy(q).requires_grad_(False)
optimizer = torch.optim.RMSprop(q.parameters(), lr=1e-3, alpha=0.95, momentum=0.5, centered=True)

run = train.elastic(q, optimizer, replay, steps=80, state={"target": q_target})
for _ in run.epochs():
    for s, a, r, s2, d in run.batches():
        with torch.no_grad():
            y = r + gamma * (1 - d) * q_target(s2).max(1).values
        loss = F.huber_loss(q(s).gather(1, a[:, None]).squeeze(1), y)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
        if run.has_stepped and run.steps % 10 == 0:
            q_target.load_state_dict(q.state_dict())
if run.is_leader:
    torch.save(
        {**q.state_dict(), **{f"target.{k}": v for k, v in q_target.state_dict().items()}}, sys.argv[1]
    )
