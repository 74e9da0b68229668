"""Rank 0 makes the data, slowly; the others read it after a barrier."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.manual_seed(1)
if dist.get_rank() == 0:
    time.sleep(1)
    torch.save(torch.randn(1600, 8), "data.part")
    os.rename("data.part", "data.pt")
dist.barrier()
x = torch.load("data.pt")
model = DDP(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dataset = TensorDataset(x)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=10, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()
print("trained")
