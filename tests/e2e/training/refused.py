import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo")
values = torch.ones(1)
dist.all_reduce(values)
group = dist.new_group([0])
