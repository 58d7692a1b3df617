"""Evidence: what was observed in a query, for certain ("hard") or as likelihoods ("soft").

Soft evidence on a variable is a likelihood by state, up to scale: (2, 1) says that what was seen is twice as likely in
the first state.  It multiplies the distribution, as an observed child would, and does not replace it.  Inference is not
here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import DiscreteNetwork
from doxa.models.markov import read_array
from doxa.text import near

if TYPE_CHECKING:
    from doxa.models.gaussian import GaussianNetwork

__all__ = ["Evidence", "read_evidence", "read_values", "with_soft_values"]


class Evidence(NamedTuple):
    """What was observed, by position of the variables; made by `read_evidence`."""

    hard: dict[int, int]  # variable -> position of its state
    soft: dict[int, NDArray[np.float64]]  # variable -> likelihood by state, shape (n_states,); finite, not all 0

    @property
    def variables(self) -> tuple[int, ...]:
        """Variables that anything was observed of, increasing."""
        return tuple(sorted(self.hard.keys() | self.soft.keys()))

    def only(self, variables: Iterable[int]) -> Evidence:
        """What was observed of some variables."""
        kept = set(variables)
        hard = {v: state for v, state in self.hard.items() if v in kept}
        return Evidence(hard, {v: likelihood for v, likelihood in self.soft.items() if v in kept})


def read_evidence(
    network: DiscreteNetwork,
    given: Mapping[str, str | int] | None = None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None = None,
) -> Evidence:
    """Evidence by name and label, checked against a network.

    Parameters
    ----------
    network : DiscreteNetwork
    given : mapping of str to str or int, optional
        The state each variable was observed in, by label.  A whole number stands for the label it is written as, never
        for a position: 1 is the state "1".
    soft : mapping of str to array_like or mapping of str to float, optional
        Likelihoods, not negative: by state in the network's order, or ``{label: likelihood}`` with 0 for labels that
        are left out.  Their scale counts in the log evidence and nowhere else.

    Returns
    -------
    Evidence

    Raises
    ------
    ArgumentError
        If a variable or state is unknown, a likelihood is negative, NaN or infinite, all are 0, or soft evidence gives
        0 to the state that ``given`` names.  (Where it does not, a variable may be in both.)

    Examples
    --------
    >>> from doxa.models import Dag
    >>> from doxa.models.categorical import CategoricalNetwork
    >>> dag = Dag.from_edges([("rain", "wet")])
    >>> yes_no = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> network = CategoricalNetwork(dag, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}, yes_no)
    >>> read_evidence(network, {"wet": "yes"}, {"rain": {"no": 1, "yes": 3}})
    Evidence(hard={1: 1}, soft={0: array([1., 3.])})
    >>> read_evidence(network, {"wte": "yes"})
    Traceback (most recent call last):
    ...
    doxa.errors.ArgumentError: given names 'wte', which is not in the network; close to it is 'wet'
    """
    from doxa.models.gaussian import GaussianNetwork

    if isinstance(network, GaussianNetwork):
        raise ArgumentTypeError(
            "network is a GaussianNetwork, and this is answered for networks of categories alone; doxa.infer has "
            "distributions of its nodes"
        )
    position = {name: i for i, name in enumerate(network.names)}
    hard = {}
    for name, state in _items("given", given):
        variable = _variable("given", name, position)
        hard[variable] = place_of_state(f"given[{name!r}]", state, network.states[variable])
    likelihoods = {}
    for name, value in _items("soft", soft):
        variable = _variable("soft", name, position)
        likelihood = _likelihood(f"soft[{name!r}]", value, network.states[variable])
        if variable in hard and likelihood[hard[variable]] == 0:
            label = network.states[variable][hard[variable]]
            raise ArgumentError(
                f"soft[{name!r}] gives {label!r} the likelihood 0, and given says that {name!r} is {label!r}; "
                f"leave out one of them"
            )
        likelihoods[variable] = likelihood
    return Evidence(hard, likelihoods)


def read_values(network: GaussianNetwork, given: Mapping[str, str | float] | None = None) -> dict[int, float]:
    """What was seen of numbers and categories, by position: numbers, and positions of states.

    Parameters
    ----------
    network : GaussianNetwork
    given : mapping of str to str or float, optional
        Numbers of numbers, in their units, and labels of states of categories.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a node or state is unknown, or the value of a number is no finite number.

    Examples
    --------
    >>> from doxa.models import Dag, GaussianNetwork, Regression
    >>> read_values(GaussianNetwork(Dag([[0]], ["height"]), {"height": Regression(170.0, [], 9.0)}), {"height": 181})
    {0: 181.0}
    """
    from doxa.models.gaussian import check_number

    position = {name: i for i, name in enumerate(network.names)}
    found: dict[int, float] = {}
    for name, value in _items("given", given):
        v, label = _variable("given", name, position), f"given[{name!r}]"
        labels = network.states[v]
        found[v] = place_of_state(label, value, labels) if labels else check_number(label, value)
    return found


def with_soft_values(
    network: GaussianNetwork, soft: Mapping[str, Any] | None
) -> tuple[GaussianNetwork, dict[int, float], float]:
    """A network with a node below each that soft evidence is about, what is seen of these nodes, and a constant.

    A child that repeats a number with normal scatter, and was seen to have a value, is a noisy measurement of it; one
    that is ``yes`` with probabilities in the proportion of the likelihoods, and is ``yes``, is soft evidence of a
    category (Pearl 1988, section 2.2.2).  The nodes are called ``"evidence about <name>"`` and stand last.

    Parameters
    ----------
    network : GaussianNetwork
    soft : mapping, optional
        Of a category likelihoods, as `read_evidence` takes them; of a number ``(value, sd)``: what was measured, and
        the standard deviation of the measurement, above 0.

    Returns
    -------
    GaussianNetwork
    dict of int to float
        As `read_values` has it.
    float
        Nats, to be added to the log evidence: the scale of likelihoods counts.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a node is unknown, a likelihood or a number is not valid, or a node by the name of a new one is there.
    """
    from doxa.models.dag import Dag
    from doxa.models.gaussian import GaussianNetwork, Regression, check_number

    position = {name: i for i, name in enumerate(network.names)}
    lines, tables = dict(network.regressions), dict(network.tables)
    states = {name: labels for name, labels in zip(network.names, network.states, strict=True) if labels}
    edges, constant = list(network.dag.edges), 0.0
    new: list[str] = []
    seen: dict[int, float] = {}
    for name, value in _items("soft", soft):
        v, label = _variable("soft", name, position), f"soft[{name!r}]"
        child = f"evidence about {name}"
        if child in position:
            raise ArgumentError(f"{label} would add the node {child!r}, and there is one; rename that")
        edges.append((name, child))
        place = len(network.names) + len(new)
        new.append(child)
        if network.states[v]:
            likelihood = _likelihood(label, value, network.states[v])
            share = likelihood / likelihood.max()
            tables[child], states[child] = np.stack([1.0 - share, share], axis=1), ("no", "yes")
            seen[place], constant = 1.0, constant + math.log(float(likelihood.max()))
            continue
        form = f"{label} is {value!r}; of a number give (value, sd): what was measured and its standard deviation"
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__") or len(value) != 2:
            raise ArgumentTypeError(form)
        centre, sd = (check_number(label, one) for one in value)
        if sd <= 0:
            raise ArgumentError(f"{form}, above 0; say given={{{name!r}: {centre:g}}} where it is known exactly")
        lines[child], seen[place] = Regression(0.0, [1.0], sd), centre
    if not new:
        return network, {}, 0.0
    dag = Dag.from_edges(edges, [*network.names, *new])
    return GaussianNetwork(dag, lines, tables, states, dict(network.log_odds)), seen, constant


def _items(argument: str, mapping: Any) -> Iterable[tuple[Any, Any]]:
    if mapping is None:
        return ()
    if not isinstance(mapping, Mapping):
        raise ArgumentTypeError(f"{argument} is {mapping!r}; give a mapping of names to what was observed")
    return mapping.items()


def _variable(argument: str, name: object, position: Mapping[str, int]) -> int:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{argument} names {name!r}; names of variables are text")
    if name not in position:
        raise ArgumentError(f"{argument} names {name!r}, which is not in the network; {near(name, position)}")
    return position[name]


def place_of_state(label: str, state: object, states: Sequence[str]) -> int:
    """Position of a state; a whole number stands for the label that it is written as."""
    if isinstance(state, (bool, np.bool_)) or not isinstance(state, (str, int, np.integer)):
        raise ArgumentTypeError(f"{label} is {state!r}; give the label of a state, such as {states[0]!r}")
    word = str(state)
    if word not in states:
        raise ArgumentError(f"{label} is {state!r}, which is not one of its states; {near(word, states)}")
    return states.index(word)


def _likelihood(label: str, value: Any, states: tuple[str, ...]) -> NDArray[np.float64]:
    if isinstance(value, Mapping):
        for key in value:
            place_of_state(f"{label} names a state that", key, states)
        by_label = {str(key): number for key, number in value.items()}
        value = [by_label.get(state, 0.0) for state in states]
    likelihood = read_array(label, value)
    if likelihood.shape != (len(states),):
        raise ArgumentError(
            f"{label} has shape {likelihood.shape}; it must be ({len(states)},), a likelihood for each of "
            f"{', '.join(map(repr, states[:12]))}"
        )
    wrong = ~((likelihood >= 0) & np.isfinite(likelihood))  # NaN too
    if wrong.any():
        k = int(wrong.argmax())
        raise ArgumentError(
            f"{label} gives {states[k]!r} the likelihood {likelihood[k]:g}; it must be 0 or more, finite"
        )
    if not likelihood.any():
        raise ArgumentError(f"{label} is 0 in every state; at least one must be possible")
    likelihood.setflags(write=False)
    return likelihood
