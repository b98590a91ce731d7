"""A loop without end that is left when a local has counted to the last step."""

import sys

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(120, 6)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)


def main():
    global run
    run = train.elastic(model, optimizer, loader, steps=80)
    step, max_steps = 0, 80
    while True:
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = F.mse_loss(model(a), b)
            run.backward(loss)
            run.step()
            step += 1
            if step == max_steps:
                break
        if step == max_steps:
            break
    print("done", step)


main()

if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])
