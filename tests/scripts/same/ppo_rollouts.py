"""PPO in one file: a rollout fills the dataset's tensors at the head of each epoch, then minibatches."""

from types import SimpleNamespace

from tests.scripts.common import DataLoader, TensorDataset, nn, np, torch, train
from torch.distributions.categorical import Categorical


class VecEnv:
    def __init__(self, n):
        self.n, self.rng = n, np.random.default_rng(3)
        self.pos = self.rng.normal(size=(n, 2))

    def reset(self):
        return self.pos.copy()

    def step(self, action):
        self.pos[:, 0] += np.where(action == 0, -0.3, 0.3) + 0.1 * self.pos[:, 1]
        self.pos[:, 1] = self.rng.normal(size=self.n)
        done = np.abs(self.pos[:, 0]) > 2
        reward = -np.abs(self.pos[:, 0])
        self.pos[done] = self.rng.normal(size=(int(done.sum()), 2))
        return self.pos.copy(), reward, done


def layer_init(layer, std=2**0.5, bias=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(2, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0)
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(2, 16)), nn.Tanh(), layer_init(nn.Linear(16, 2), std=0.01)
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


args = SimpleNamespace(num_envs=4, num_steps=15, lr=2.5e-3, gamma=0.99, lam=0.95, clip=0.2, ent=0.01, vf=0.5)
envs = VecEnv(args.num_envs)
model = Agent()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5)
shape = (args.num_steps, args.num_envs)
obs = torch.zeros(shape + (2,))
actions = torch.zeros(shape)
logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
b_size = args.num_steps * args.num_envs
b_obs = torch.zeros(b_size, 2)
b_actions, b_logprobs, b_advantages, b_returns, b_values = (torch.zeros(b_size) for _ in range(5))
loader = DataLoader(
    TensorDataset(b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values),
    batch_size=12,
    shuffle=True,
)
global_step = 0
next_obs = torch.tensor(envs.reset())
next_done = torch.zeros(args.num_envs)
run = train.elastic(model, optimizer, loader, epochs=16)
for iteration in run.epochs():
    optimizer.param_groups[0]["lr"] = (1.0 - iteration / 16) * args.lr
    for step in range(args.num_steps):
        global_step += args.num_envs
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = model.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        o, reward, d = envs.step(action.numpy())
        rewards[step] = torch.tensor(reward)
        next_obs, next_done = torch.tensor(o), torch.tensor(d, dtype=torch.float64)
    with torch.no_grad():
        next_value = model.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            nextnonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
            nextvalues = next_value if t == args.num_steps - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.lam * nextnonterminal * lastgaelam
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        b_obs.copy_(obs.reshape(-1, 2))
        b_actions.copy_(actions.reshape(-1))
        b_logprobs.copy_(logprobs.reshape(-1))
        b_advantages.copy_(advantages.reshape(-1))
        b_returns.copy_((advantages + values).reshape(-1))
        b_values.copy_(values.reshape(-1))
    for mb_obs, mb_actions, mb_logprobs, mb_adv, mb_returns, _ in run.batches():
        _, newlogprob, entropy, newvalue = model.get_action_and_value(mb_obs, mb_actions.long())
        ratio = (newlogprob - mb_logprobs).exp()
        pg_loss = torch.max(-mb_adv * ratio, -mb_adv * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
        v_loss = 0.5 * ((newvalue.view(-1) - mb_returns) ** 2).mean()
        loss = pg_loss - args.ent * entropy.mean() + v_loss * args.vf
        optimizer.zero_grad()
        run.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        run.step()
    run.report(ret=float(rewards.mean()), global_step=global_step)
