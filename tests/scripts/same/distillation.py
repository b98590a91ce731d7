"""Knowledge distillation: a teacher is trained before elastic and frozen; the student learns from it."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x = torch.randn(84, 6)
y = (x @ torch.randn(6, 3)).argmax(1)
teacher = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 3))
teacher_optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for _ in range(15):
    teacher_optimizer.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    teacher_optimizer.step()
teacher.eval().requires_grad_(False)

student = nn.Linear(6, 3)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
T, alpha = 3.0, 0.7
run = train.elastic(student, optimizer, DataLoader(TensorDataset(x, y), 12, shuffle=True), epochs=12)
for _ in run.epochs():
    for inputs, labels in run.batches():
        with torch.no_grad():
            soft = F.softmax(teacher(inputs) / T, dim=1)
        logits = student(inputs)
        kd = F.kl_div(F.log_softmax(logits / T, dim=1), soft, reduction="batchmean") * T * T
        loss = alpha * kd + (1 - alpha) * F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
