"""Stages of a training by the number of the epoch, in locals of main(): a penalty, and a part of the data."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


def main():
    torch.manual_seed(6)
    x = torch.randn(60, 8)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    run = train.elastic(model, optimizer, loader, epochs=16)
    for epoch in run.epochs():
        stage = epoch // 5
        total, num = 0.0, 0
        for inputs, targets in run.batches():
            loss = F.mse_loss(model(inputs), targets)
            if epoch >= 7:
                loss = loss + 1e-3 * sum(part.abs().sum() for part in model.parameters())
            optimizer.zero_grad()
            mean = run.backward(loss / (1 + stage)) * (1 + stage)
            run.step()
            if run.has_stepped:
                total += mean.item()
                num += 1
        run.report(stage=stage)
        if run.is_leader:
            print(f"epoch {epoch}: {total / max(1, num):.4f}")


main()
