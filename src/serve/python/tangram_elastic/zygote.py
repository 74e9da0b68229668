"""A process that has imported PyTorch and waits: a trainer forked from it needs milliseconds instead of seconds.

Reads one JSON object a line from standard input: {"trainer": 3, "environment": {...}, "cpus": [0, 1], "script": "train.py",
"arguments": [...], "logical_workers": 8}. Forks for each, and ends with its standard input. It computes nothing itself,
so that no thread of a library exists when it forks.
"""

import fcntl
import json
import os
import resource
import signal
import sys

import torch
import torch.distributed  # noqa: F401
import torch.nn.parallel  # noqa: F401
import torch.utils.data  # noqa: F401

from . import link, script


def _become_trainer(order):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started the job.
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    # First of all: from here on the coordinator sees it end, and can kill it.
    link.connect(os.environ["TANGRAM_ELASTIC_SOCKET"], order["trainer"])
    _give_way(order)
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


def _give_way(order):
    """Memory that runs out is taken from trainers before it is taken from anybody else."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass
    if order.get("memory_mib"):
        limit = order["memory_mib"] << 20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _hold_lock():
    """A shared lock that every trainer holds for as long as it lives: who continues the job waits for it, because the
    trainers of a coordinator that has died may still be saving the state."""
    path = os.environ.get("TANGRAM_ELASTIC_LOCK")
    if path:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.set_inheritable(lock, False)


def main():
    _hold_lock()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Children are reaped by the kernel.
    for line in sys.stdin:
        if os.fork() == 0:
            _become_trainer(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
