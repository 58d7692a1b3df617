r"""Which families of a graph a question depends on.

Nodes that are neither asked for nor observed, nor ancestors of such, sum to one and are left out; so is, once observed
nodes are cut out, what is no longer joined to the target (d-separation).  Intervention removes the families of the
nodes that are set, the truncated factorisation of Pearl (2009, eq. 3.10):

.. math:: p(x \mid do(z)) = \prod_{i \notin Z} p(x_i \mid x_{\pi(i)}) \quad \text{where } x_Z = z.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from doxa.structure.averaging.counts import Family

__all__ = ["is_linear", "requisite_families"]

Parents = Sequence[tuple[int, ...]]


def requisite_families(
    parents: Parents,
    target: Collection[int],
    given: Collection[int],
    do: Collection[int],
    *,
    whole: bool = False,
) -> tuple[Family, ...]:
    """The families on which p(target | given, do) depends, or with ``whole`` p(target, given | do).

    Parameters
    ----------
    parents : sequence of tuple of int
        Of every node.
    target, given, do : collection of int
        Nodes, none of them in two.
    whole : bool, default=False
        Whether the probability of ``given`` is wanted too.

    Returns
    -------
    tuple of (int, tuple of int)
        Children, increasing, with their parents.

    Examples
    --------
    >>> chain = [(), (0,), (1,), (2,)]
    >>> requisite_families(chain, [1], [], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [0], [1, 3], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [2], [0], [1])
    ((2, (1,)),)
    """
    found = {*target, *given}
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        if node not in do:
            new = [p for p in parents[node] if p not in found]
            found.update(new)
            waiting += new
    families = [(node, parents[node]) for node in sorted(found) if node not in do]
    if whole:
        return tuple(families)
    known = {*given, *do}
    free = [[v for v in (child, *group) if v not in known] for child, group in families]
    neighbours: dict[int, list[int]] = {}
    for k, members in enumerate(free):
        for v in members:
            neighbours.setdefault(v, []).append(k)
    joined = set(target)
    waiting = list(joined)
    used = [False] * len(families)
    while waiting:
        for k in neighbours[waiting.pop()]:
            if not used[k]:
                used[k] = True
                new = [v for v in free[k] if v not in joined]
                joined.update(new)
                waiting += new
    return tuple([family for k, family in enumerate(families) if used[k]])


def is_linear(families: Sequence[Family], given: Collection[int]) -> bool:
    r"""Whether p(target | given, do) needs no division: none of the requisite ``families`` is of an observed child.

    Notes
    -----
    Then the families' children are the free nodes, each once, and the sum of their product over all of these is 1: the
    conditional probability is a sum of products, each of one entry of every family.  Parameters of different families
    are independent given graph and completed table, so that its posterior mean is exactly the conditional probability
    in the network of posterior mean parameters.  With an observed child it is a ratio, and its mean is not.
    """
    return all(child not in given for child, _ in families)
