"""A process that has imported PyTorch and waits: a trainer forked from it needs milliseconds instead of seconds.

Reads one JSON object a line from standard input: {"trainer": 3, "environment": {...}, "cpus": [0, 1], "script": "train.py",
"arguments": [...], "logical_workers": 8}. Forks for each, and ends with its standard input. It computes nothing itself,
so that no thread of a library exists when it forks.
"""

import json
import os
import signal
import sys

import torch
import torch.distributed  # noqa: F401
import torch.nn.parallel  # noqa: F401
import torch.utils.data  # noqa: F401

from . import script


def _become_trainer(order):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started the job.
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.environ.update(order.get("environment", {}))
    if order.get("cpus"):
        os.sched_setaffinity(0, order["cpus"])
    if order.get("nice"):
        os.nice(order["nice"])
    torch.set_num_threads(order.get("threads", 1))
    os.environ["TANGRAM_TRAINER"] = str(order["trainer"])
    if order.get("directory"):
        os.chdir(order["directory"])
    os._exit(script.run(order["script"], order.get("arguments", []), order["logical_workers"]))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Children are reaped by the kernel.
    for line in sys.stdin:
        if os.fork() == 0:
            _become_trainer(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
