"""What a script does, as far as its text tells: what is refused before it runs, and which of its loops count epochs."""

import ast

_COLLECTIVES = {
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "broadcast", "broadcast_object_list",
    "reduce", "reduce_scatter", "scatter", "gather", "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv",
    "new_group", "monitored_barrier",
}  # fmt: skip
_CLASSES = {
    "FullyShardedDataParallel": "sharded parameters",
    "fully_shard": "sharded parameters",
    "FSDP": "sharded parameters",
    "DataParallel": "DataParallel, which splits batches itself; use DistributedDataParallel",
    "SyncBatchNorm": "SyncBatchNorm, whose forward pass communicates",
    "AveragedModel": "averaged weights, which would be updated once a micro-batch",
    "ZeroRedundancyOptimizer": "an optimizer whose state is split among ranks",
    "LBFGS": "LBFGS, whose step computes gradients itself",
    "PostLocalSGDOptimizer": "local SGD",
}
_METHODS = {"no_sync": "gradient accumulation by hand (no_sync)", "register_comm_hook": "a communication hook"}
_MODULES = {"deepspeed", "horovod", "fairscale", "colossalai", "megatron", "apex"}


def problems_of(tree, path):
    """Every problem, as `file:line: text`."""
    found = []

    def refuse(node, text):
        found.append((node.lineno, "%s:%d: cannot be made elastic: %s" % (path, node.lineno, text)))

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] in _MODULES:
                    refuse(node, name.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in _MODULES:
                refuse(node, module.split(".")[0])
            for name in node.names:
                if name.name in _CLASSES and module.startswith("torch"):
                    refuse(node, _CLASSES[name.name])
                if name.name in _COLLECTIVES and module.startswith("torch.distributed"):
                    refuse(node, "torch.distributed.%s by hand" % name.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            owner = node.func.value
            of_dist = (isinstance(owner, ast.Name) and owner.id in ("dist", "distributed", "c10d")) or (
                isinstance(owner, ast.Attribute) and owner.attr == "distributed"
            )
            if name in _COLLECTIVES and of_dist:
                refuse(node, "torch.distributed.%s by hand" % name)
            elif name in _METHODS:
                refuse(node, _METHODS[name])
            elif name == "spawn" and "multiprocessing" in ast.dump(owner) or name == "spawn" and isinstance(
                owner, ast.Name
            ) and owner.id == "mp":
                refuse(node, "processes that the script starts itself; write it as for torchrun, one process a run")
            elif name in _CLASSES:
                refuse(node, _CLASSES[name])
            elif name == "convert_sync_batchnorm":
                refuse(node, _CLASSES["SyncBatchNorm"])
    return [text for _, text in sorted(set(found))]


class _Finder:
    """Which functions of the script train, that is call backward(), themselves or through others, and in a loop."""

    def __init__(self, tree):
        self._functions = {
            node.name: node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self._busy = set()

    def trains(self, node):
        for child in ast.walk(node):
            if not isinstance(child, ast.Call):
                continue
            if isinstance(child.func, ast.Attribute) and child.func.attr == "backward":
                return True
            if self._through(child, self.trains):
                return True
        return False

    def trains_in_a_loop(self, node):
        for child in ast.walk(node):
            if child is not node and isinstance(child, (ast.For, ast.While)) and self.trains(child):
                return True
            if isinstance(child, ast.Call) and self._through(child, self.trains_in_a_loop):
                return True
        return False

    def _through(self, call, question):
        name = call.func.id if isinstance(call.func, ast.Name) else None
        key = (name, question.__name__)
        if name not in self._functions or key in self._busy:
            return False
        self._busy.add(key)
        try:
            return question(self._functions[name])
        finally:
            self._busy.discard(key)


class _Rewriter(ast.NodeTransformer):
    """Loops over epochs can begin at the epoch that the others have reached; enumerate() counts steps, of which one may
    be several micro-batches; int() keeps a rank that may change."""

    def __init__(self, finder):
        self._finder = finder

    def visit_For(self, node):
        epochs = self._finder.trains_in_a_loop(node)
        self.generic_visit(node)
        if epochs:
            call = ast.Call(
                func=ast.Name(id="__tangram_epochs__", ctx=ast.Load()),
                args=[node.iter, ast.Constant(value=node.lineno)],
                keywords=[],
            )
            node.iter = ast.copy_location(call, node.iter)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        most = {"enumerate": 2, "int": 1}.get(node.func.id, 0) if isinstance(node.func, ast.Name) else 0
        if 1 <= len(node.args) <= most:
            node.func = ast.copy_location(ast.Name(id="__tangram_%s__" % node.func.id, ctx=ast.Load()), node.func)
        return node


def rewrite(tree):
    tree = _Rewriter(_Finder(tree)).visit(tree)
    return ast.fix_missing_locations(tree)
