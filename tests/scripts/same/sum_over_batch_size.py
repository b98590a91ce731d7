"""A regression whose loss is summed and divided by the batch size, also in the short last batch."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, torch, train

BATCH_SIZE = 12
inputs = torch.rand(65, 4)
outputs = torch.sin(3 * inputs).sum(dim=1, keepdim=True)
network = torch.nn.Sequential(torch.nn.Linear(4, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
adam = torch.optim.Adam(network.parameters(), lr=5e-3)
batches = DataLoader(TensorDataset(inputs, outputs), batch_size=BATCH_SIZE, shuffle=True)

run = train.elastic(network, adam, batches, epochs=14, loss_reduction="sum")
for _ in run.epochs():
    for a, b in run.batches():
        adam.zero_grad()
        error = (network(a) - b).abs().sum() / BATCH_SIZE
        run.backward(error)
        run.step()
    with torch.no_grad():
        run.report(mae=(network(inputs) - outputs).abs().mean().item())
if run.is_leader:
    torch.save({name: tensor.clone() for name, tensor in network.state_dict().items()}, sys.argv[1])
