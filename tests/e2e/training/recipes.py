"""DistributedDataParallel scripts as people write them: what the options say, in one file."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--schedule", default="none")
parser.add_argument("--helpers", type=int, default=0)
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--while-loop", action="store_true")
parser.add_argument("--save", default="")
parser.add_argument("--unused", action="store_true")
arguments = parser.parse_args()

dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
world_size = dist.get_world_size()
torch.manual_seed(7)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 5)
        self.sometimes = nn.Linear(64, 5)

    def forward(self, x):
        features = self.body(x)
        return self.head(features)


model = DDP(Net(), find_unused_parameters=arguments.unused)
parameters = model.parameters()
optimizer = {
    "sgd": lambda: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "adam": lambda: torch.optim.Adam(parameters, lr=2e-3),
    "adamw": lambda: torch.optim.AdamW(parameters, lr=2e-3, amsgrad=True),
}[arguments.optimizer]()

generator = torch.Generator().manual_seed(1)
x = torch.randn(6400, 32, generator=generator)
y = (x @ torch.randn(32, 5, generator=generator)).argmax(1)
dataset = TensorDataset(x, y)
sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=3)
loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=arguments.helpers, drop_last=False)
tests = DataLoader(TensorDataset(x[:200]), batch_size=16, sampler=DistributedSampler(x[:200], shuffle=False))
loss_of = nn.CrossEntropyLoss()

per_step = per_epoch = None
if arguments.schedule == "onecycle":
    per_step = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=arguments.epochs * len(loader))
if arguments.schedule == "steps":
    per_epoch = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
if arguments.schedule == "multistep":
    per_epoch = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], 0.5)
if arguments.schedule == "warmup":
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    per_step = torch.optim.lr_scheduler.SequentialLR(
        optimizer, [warmup, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80)], [20]
    )


def train(epoch):
    model.train()
    sampler.set_epoch(epoch)
    total, count = 0.0, 0
    for i, (inputs, labels) in enumerate(loader, 1):
        assert [at for at, _ in enumerate(_ for _ in range(3))] == [0, 1, 2]
        assert 1 <= i <= len(loader)
        loss = loss_of(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        if arguments.clip:
            nn.utils.clip_grad_norm_(model.parameters(), arguments.clip)
        optimizer.step()
        if per_step:
            per_step.step()
        total, count = total + loss.item(), count + 1
    return total / count


def evaluate(epoch, loss):
    model.eval()
    with torch.no_grad():
        assert sum(1 for _ in tests) == len(tests) == 13
        right = (model(x[:1000]).argmax(1) == y[:1000]).float().mean()
    print(f"epoch {epoch} loss {loss:.4f} right {right:.3f} lr {optimizer.param_groups[0]['lr']:.6f}", flush=True)
    if arguments.save:
        torch.save({"model": model.module.state_dict(), "epoch": epoch}, arguments.save + f".{epoch}")


if arguments.while_loop:
    epoch = 0
    while epoch < arguments.epochs:
        model.train()
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss_of(model(inputs), labels).backward()
            optimizer.step()
        if per_epoch:
            per_epoch.step()
        epoch += 1
else:
    for epoch in range(arguments.epochs):
        loss = train(epoch)
        if per_epoch:
            per_epoch.step()
        if rank == 0:
            evaluate(epoch, loss)
        dist.barrier()
dist.destroy_process_group()
