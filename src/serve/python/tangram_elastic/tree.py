"""A sum whose shape does not depend on who adds.

The gradients of the logical workers 0 to n - 1 are the leaves of a binary tree, which is the same for every number of
trainers. A trainer holds a contiguous range of leaves and adds up the subtrees that lie in it; of 8 leaves, the second
of three trainers holds 3 to 5 and sends leaf 3 and the sum of 4 and 5. Floating-point sums depend on their order, so
this, and not the sum of all, has the same bits always.
"""


class SumTree:
    def __init__(self, leaves):
        self._parent = {}
        self.root = (0, leaves)
        self._grow(0, leaves)

    def _grow(self, begin, end):
        size = end - begin
        if size == 1:
            return
        left = 1
        while left * 2 < size:
            left *= 2
        for child in ((begin, begin + left), (begin + left, end)):
            self._parent[child] = (begin, end)
            self._grow(*child)

    def push(self, stack, node, value):
        """Adds a node behind those of `stack`, which are in order, and joins siblings. Changes the values in place."""
        while stack:
            last, before = stack[-1]
            parent = self._parent.get(last)
            if parent is None or parent != self._parent.get(node) or last[1] != node[0]:
                break
            stack.pop()
            value = before.add_(value)
            node = parent
        stack.append((node, value))

    def cover(self, begin, end):
        """The nodes to which the leaves of a range add up."""
        stack = []
        for leaf in range(begin, end):
            self.push(stack, (leaf, leaf + 1), _Nothing())
        return [node for node, _ in stack]


class _Nothing:
    def add_(self, other):
        return self


def shares(leaves, active):
    """The range of leaves of each of `active` trainers, as even as can be."""
    return [((i * leaves + active - 1) // active, ((i + 1) * leaves + active - 1) // active) for i in range(active)]
