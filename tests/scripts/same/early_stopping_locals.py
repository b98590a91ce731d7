"""Early stopping whose best loss and patience are locals of main()."""

import math

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


def main():
    torch.manual_seed(3)
    x = torch.randn(60, 6)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.5 * torch.randn(60, 1)
    x_valid = torch.randn(40, 6)
    y_valid = torch.sin(x_valid.sum(1, keepdim=True))
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    run = train.elastic(model, optimizer, loader, epochs=16)
    best, wait, patience = math.inf, 0, 4
    for _ in run.epochs():
        for xb, yb in run.batches():
            optimizer.zero_grad()
            loss = F.mse_loss(model(xb), yb)
            run.backward(loss)
            run.step()
        with torch.no_grad():
            valid = F.mse_loss(model(x_valid), y_valid).item()
        run.report(valid=valid)
        if valid < best:
            best = valid
            wait = 0
        else:
            wait += 1
            if wait >= patience:
                break


main()
