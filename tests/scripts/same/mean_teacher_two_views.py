"""Semi-supervised mean teacher: the consistency loss needs the teacher's weights, kept in `state`."""

import copy
import sys

from tests.scripts.common import DataLoader, Dataset, nn, torch, train

X = torch.randn(72, 6)
Y = (X[:, 0] > 0).long()


class TwoViews(Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i] + 0.1 * torch.randn(6), X[i] + 0.1 * torch.randn(6), Y[i], float(i % 3 == 0)


student = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TwoViews(), batch_size=12, shuffle=True)
run = train.elastic(student, optimizer, loader, epochs=14, state={"teacher": teacher})
for _ in run.epochs():
    for view1, view2, y, is_labelled in run.batches():
        logits = student(view1)
        with torch.no_grad():
            target = teacher(view2).softmax(1)
        supervised = (nn.functional.cross_entropy(logits, y, reduction="none") * is_labelled).mean()
        consistency = ((logits.softmax(1) - target) ** 2).sum(1).mean()
        loss = supervised + 0.5 * consistency
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
        if run.has_stepped:
            alpha = min(1 - 1 / (run.steps + 1), 0.99)
            with torch.no_grad():
                for t, s in zip(teacher.parameters(), student.parameters(), strict=True):
                    t.mul_(alpha).add_(s, alpha=1 - alpha)
if run.is_leader:
    torch.save({f"s.{k}": v for k, v in student.state_dict().items()} | teacher.state_dict(), sys.argv[1])
