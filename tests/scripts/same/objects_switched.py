"""Late in training names stand for other objects that the script had: a loss, a stage, a schedule."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


def smoothed(out, target):
    return F.cross_entropy(out, target, label_smoothing=0.1)


def focal(out, target):
    each = F.cross_entropy(out, target, reduction="none")
    return ((1 - (-each).exp()) ** 2 * each).mean()


class Stage:
    def __init__(self, name, penalty):
        self.name, self.penalty = name, penalty


class Ramp:
    def __init__(self, start, end, num):
        self.start, self.end, self.num, self.n = start, end, num, 0

    def step(self):
        self.n = min(self.n + 1, self.num)
        return self.start + (self.end - self.start) * self.n / self.num

    def state_dict(self):
        return dict(vars(self))

    def load_state_dict(self, state):
        vars(self).update(state)


x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
stages = [Stage("warm", 0.0), Stage("main", 0.02), Stage("cool", 0.005)]
warm, cool = Ramp(1e-4, 1e-2, 20), Ramp(1e-2, 1e-4, 50)
stage, schedule, criterion = stages[0], warm, smoothed

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    for a, b in run.batches():
        rate = schedule.step()
        for group in optimizer.param_groups:
            group["lr"] = rate
        if schedule.n == schedule.num:
            schedule = cool
        optimizer.zero_grad()
        out = model(a)
        run.backward(criterion(out, b) + stage.penalty * out.square().mean())
        run.step()
    if epoch == 2:
        criterion = focal
    if epoch in (4, 8):
        stage = stages[stages.index(stage) + 1]
    run.report(penalty=stage.penalty, warm=warm.n, cool=cool.n)
