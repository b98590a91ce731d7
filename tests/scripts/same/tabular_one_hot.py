"""A table with categories in one-hot columns and standardised numbers; validation split by a permutation."""

from tests.scripts.common import DataLoader, TensorDataset, nn, np, torch, train

np.random.seed(0)
rows = [
    {
        "colour": np.random.choice(["red", "green", "blue"]),
        "size": np.random.randn(),
        "n": np.random.randint(5),
    }
    for _ in range(100)
]
target = np.array([(r["colour"] == "red") * 2.0 + r["size"] - 0.3 * r["n"] for r in rows])
colours = sorted({r["colour"] for r in rows})
one_hot = np.eye(len(colours))[[colours.index(r["colour"]) for r in rows]]
numbers = np.array([[r["size"], r["n"]] for r in rows])
numbers = (numbers - numbers.mean(0)) / numbers.std(0)
X = torch.from_numpy(np.hstack([one_hot, numbers]))
y = torch.from_numpy(target).unsqueeze(1)

idx = np.random.permutation(len(X))
train_idx, val_idx = idx[:80], idx[80:]
model = nn.Sequential(nn.Linear(X.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(X[train_idx], y[train_idx]), batch_size=12, shuffle=True)
run = train.elastic(model, opt, loader, epochs=12)
for _ in run.epochs():
    for xb, yb in run.batches():
        loss = nn.functional.mse_loss(model(xb), yb)
        opt.zero_grad(set_to_none=True)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        residual = ((model(X[val_idx]) - y[val_idx]) ** 2).sum()
        run.report(r2=1 - residual / ((y[val_idx] - y[val_idx].mean()) ** 2).sum())
