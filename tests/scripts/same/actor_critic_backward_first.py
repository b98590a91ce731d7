"""Both losses and backward passes before the two steps; the first optimizer is another one after a while."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

state, reward = torch.randn(75, 5), torch.randn(75, 1)
trunk = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8).eval(), nn.Tanh())
trunk.train(False)
actor, critic = nn.Linear(8, 3), nn.Linear(8, 1)
acting = [*trunk.parameters(), *actor.parameters()]
warm = torch.optim.SGD(acting, lr=0.05, momentum=0.9)
later = torch.optim.Adam(acting, lr=2e-3)
opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(state, reward), batch_size=12, shuffle=True)
model = nn.ModuleDict({"trunk": trunk, "actor": actor, "critic": critic})
run = train.elastic(model, {"warm": warm, "later": later, "critic": opt_critic}, loader, epochs=12)
for _ in run.epochs():
    for s, r in run.batches():
        optimizer = warm if run.steps < 30 else later
        optimizer.zero_grad()
        opt_critic.zero_grad()
        h = trunk(s)
        advantage = r - critic(h.detach())
        loss_critic = advantage.square().mean()
        loss_actor = -(torch.log_softmax(actor(h), 1)[:, :1] * advantage.detach()).mean()
        run.backward(loss_critic)
        run.backward(loss_actor)
        run.step(opt_critic)
        run.step(optimizer)
