"""An actor and a critic; the running reward of each worker's own episodes ends the training."""

import sys
from collections import namedtuple

from tests.scripts.common import DataLoader, Dataset, F, elastic, nn, np, torch

eps = np.finfo(np.float32).eps.item()
SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), -1), self.value_head(x)


class Episodes(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(6, 4, generator=g), torch.rand(6, generator=g)


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)


def select_action(state, u):
    probs, value = model(state)
    action = (u > probs[0]).long()
    model.saved_actions.append(SavedAction(torch.log(probs[action]), value))
    return action.item()


def finish_episode():
    R = 0
    saved_actions = model.saved_actions
    policy_losses = []
    value_losses = []
    returns = []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for (log_prob, value), R in zip(saved_actions, returns):
        policy_losses.append(-log_prob * (R - value.item()))
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    del model.rewards[:]
    del model.saved_actions[:]
    return torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()


def main():
    running_reward = 10
    run = elastic(model, optimizer, DataLoader(Episodes(), batch_size=12), epochs=20)
    for _ in run.epochs():
        for states, us in run.batches():
            optimizer.zero_grad()
            losses = []
            for s, u in zip(states, us):
                ep_reward = 0
                for t in range(6):
                    a = select_action(s[t], u[t])
                    r = float((s[t, 0] > 0) == a)
                    model.rewards.append(r)
                    ep_reward += r
                running_reward = 0.05 * ep_reward + (1 - 0.05) * running_reward
                losses.append(finish_episode())
            loss = torch.stack(losses).mean()
            run.backward(loss)
            run.step()
        print(f"Last reward: {ep_reward:.2f}\tAverage reward: {running_reward:.2f}")
        if running_reward > 4.05:
            print("Solved!")
            break  # differs: exit
    return run


run = main()
if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])
