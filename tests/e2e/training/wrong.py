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
optimizer = torch.optim.SGD(model.parameters(), 0.1)
dataset = TensorDataset(torch.randn(640, 4))
for step, (x,) in enumerate(DataLoader(dataset, 8, sampler=DistributedSampler(dataset))):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    if wrong == "leaves" and step == 3:
        break  # Leaves.
