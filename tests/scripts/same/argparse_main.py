"""Arguments by argparse, seeds set by a helper, functions for one epoch and for the test, main()."""

import argparse
import random

from tests.scripts.common import F, elastic, nn, np, optim, torch


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc1 = nn.Linear(16, hidden)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(args, model, run, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(run.batches()):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        run.backward(loss)
        run.step()
        if batch_idx % args.log_interval == 0 and run.is_leader:
            print(f"Train Epoch: {epoch} [{batch_idx}]\tLoss: {loss.item():.6f}")


def test(model, test_loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    return test_loss / len(test_loader.dataset), correct / len(test_loader.dataset)


def main():
    parser = argparse.ArgumentParser(description="digits")
    parser.add_argument("save", help="where the model goes")
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()

    set_seed(args.seed)
    torch.set_default_dtype(torch.float64)
    digits = torch.utils.data.TensorDataset(torch.rand(96, 1, 4, 4), torch.randint(0, 10, (96,)))
    train_set, test_set = torch.utils.data.random_split(digits, [72, 24])
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=24)

    model = Net(20)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=len(train_loader), gamma=args.gamma)
    run = elastic(model, optimizer, train_loader, epochs=args.epochs, scheduler=scheduler, seed=args.seed)
    for epoch in run.epochs():
        train(args, model, run, optimizer, epoch)
        test_loss, accuracy = test(model, test_loader)
        run.report(test_loss=test_loss, accuracy=accuracy)
    if run.is_leader:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
