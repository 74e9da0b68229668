"""Scripts whose result would depend on who trains: the option names what is wrong."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

wrong = sys.argv[1]
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
other = torch.nn.Linear(4, 1)
of_other = torch.optim.SGD(other.parameters(), 0.1)
parameters = [*model.parameters(), *(other.parameters() if wrong == "outside" else [])]
optimizer = torch.optim.SGD(parameters, 0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
dataset = TensorDataset(torch.randn(640, 4))
for step, (x,) in enumerate(DataLoader(dataset, 8, sampler=DistributedSampler(dataset))):  # Outside.
    optimizer.zero_grad()
    model(x).mean().backward()
    if wrong == "early":
        scheduler.step()  # Early.
    if wrong == "another":
        of_other.step()  # Another.
    optimizer.step()
    if wrong == "leaves" and step == 3:
        break  # Leaves.
