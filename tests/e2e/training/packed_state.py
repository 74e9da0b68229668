"""What state.pack() was given comes back with its types; and a file that was made to run code does not run it."""

import collections

import torch

from tangram_elastic import state
from tangram_elastic.errors import Refused

given = {
    "milestones": collections.Counter({30: 1, 80: 2}),
    "state": collections.defaultdict(dict, {0: {"step": torch.tensor(3.0), "betas": (0.9, 0.999)}}),
    "model": collections.OrderedDict(a=torch.arange(6.0).reshape(2, 3), b=torch.tensor([True, False])),
    "list": [torch.ones(0), None, "text", 1.5],
}
back = state.unpack(state.pack(given))
assert type(back["milestones"]) is collections.Counter and back["milestones"] == {30: 1, 80: 2}, back
assert type(back["state"]) is collections.defaultdict and back["state"].default_factory is dict, back
assert back["state"][0]["step"] == 3 and back["state"][0]["betas"] == (0.9, 0.999), back
assert list(back["model"]) == ["a", "b"] and torch.equal(back["model"]["a"], given["model"]["a"]), back
assert torch.equal(back["model"]["b"], given["model"]["b"]) and back["list"][1:] == [None, "text", 1.5], back
assert state.checksum(given) == state.checksum(back) and type(given["milestones"]) is collections.Counter


class Order:
    def __reduce__(self):
        return print, ("it ran",)


for bad in (Order(), {"model": [Order]}, torch.nn.Linear(1, 1)):
    try:
        state.unpack(state.pack(bad))
    except Refused as problem:
        assert "a training state holds a " in str(problem), problem
    else:
        raise AssertionError("taken: %s" % bad)
parameter = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([parameter], 0.1, momentum=0.9)
one_cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)
one_cycle.load_state_dict(state.unpack(state.pack(state.without_functions(one_cycle.state_dict()))))
assert one_cycle.anneal_func.__self__ is one_cycle
print("packed_state: all as given")
