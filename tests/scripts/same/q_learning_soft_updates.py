"""Q-learning from stored transitions, some of them final, with soft updates of the target in each step."""

from collections import namedtuple

from tests.scripts.common import DataLoader, Dataset, elastic, nn, optim, torch

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
GAMMA, TAU = 0.99, 0.05


class Memory(Dataset):
    def __init__(self):
        self.memory = [
            Transition(
                torch.randn(1, 4),
                torch.randint(0, 2, (1, 1)),
                None if i % 7 == 0 else torch.randn(1, 4),
                torch.rand(1),
            )
            for i in range(72)
        ]

    def __len__(self):
        return len(self.memory)

    def __getitem__(self, i):
        return self.memory[i]


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 16)
        self.l2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x)))


policy_net, target_net = DQN(), DQN()
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
run = elastic(
    policy_net, optimizer, DataLoader(Memory(), batch_size=12, shuffle=True, collate_fn=list), epochs=20
)


def optimize_model(transitions):
    batch = Transition(*zip(*transitions))
    non_final_mask = torch.tensor(tuple(s is not None for s in batch.next_state), dtype=torch.bool)
    non_final = [s for s in batch.next_state if s is not None]
    state_action_values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_state_values = torch.zeros(len(transitions))
    if non_final:
        with torch.no_grad():
            next_state_values[non_final_mask] = target_net(torch.cat(non_final)).max(1).values
    expected = next_state_values * GAMMA + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    run.backward(loss)
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    run.step()


for _i_episode in run.epochs():
    for t in run.batches():
        optimize_model(t)
        target_net_state_dict = target_net.state_dict()
        policy_net_state_dict = policy_net.state_dict()
        for key in policy_net_state_dict:
            target_net_state_dict[key] = policy_net_state_dict[key] * TAU + target_net_state_dict[key] * (
                1 - TAU
            )
        target_net.load_state_dict(target_net_state_dict)
