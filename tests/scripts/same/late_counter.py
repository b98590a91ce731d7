"""A regulariser that a local counter switches on after the first fifty steps."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randn(60, 1)


def main():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=16)
    global_step = 0
    for _ in run.epochs():
        for a, b in run.batches():
            loss = F.mse_loss(model(a), b)
            if global_step > 50:
                loss = loss + 0.01 * sum(p.abs().sum() for p in model.parameters())
            optimizer.zero_grad()
            run.backward(loss)
            run.step()
            global_step += 1


main()
