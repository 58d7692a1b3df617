"""Read and write evidence as UAI has it: how many variables are observed, then pairs of a variable and its state.

    2  0 1  3 0

Both are numbers from 0.  An older form begins with the number of records, here one, each as above.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import DiscreteNetwork
from doxa.models.network_files.source import Limits, check_path, open_source, shown, write_text
from doxa.models.network_files.uai import Integers, without_comments

__all__ = ["read_evidence_file", "write_evidence_file"]


def read_evidence_file(
    path: str | os.PathLike[str], network: DiscreteNetwork, *, limits: Limits | None = None
) -> dict[str, str]:
    """Read what was observed.

    Parameters
    ----------
    path : str or path-like
        A file of the UAI form, mostly named ``.uai.evid``; with ``.gz`` at the end it is unpacked.
    network : CategoricalNetwork or MarkovNetwork
        Whose variables and states the numbers count, in order.
    limits : Limits, optional

    Returns
    -------
    dict of str to str
        The state of each observed variable: what ``given`` is called elsewhere.

    Raises
    ------
    NetworkFileError
        If the file cannot be read, holds several records, or does not fit the network.

    Examples
    --------
    >>> import tempfile
    >>> from doxa.models.markov import MarkovNetwork
    >>> network = MarkovNetwork({"rain": ["no", "yes"], "wet": ["no", "yes"]}, [])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_evidence_file({"wet": "yes"}, network, f"{folder}/lawn.uai.evid")
    ...     read_evidence_file(f"{folder}/lawn.uai.evid", network)
    {'wet': 'yes'}
    """
    source = without_comments(open_source(check_path(path), limits, "evidence"))
    n_words = _count_words(source.text, 2 * len(network.names) + 4)
    words = Integers(source)
    n = words.take("the number of observed variables")
    if n_words != 1 + 2 * n:  # no file has both forms: the one has an odd number of words, the other an even one
        if n != 1:
            source.refuse(f"{n} pairs of a variable and its state should follow, and nothing else", words.place)
        n = words.take("the number of observed variables")
        if n_words != 2 + 2 * n:
            source.refuse(f"{n} pairs of a variable and its state should follow, and nothing else", words.place)
    given: dict[str, str] = {}
    for _ in range(n):
        variable = words.take("a variable", len(network.names) - 1)
        name = network.names[variable]
        if name in given:
            source.refuse(f"variable {variable}, {shown(name)}, is observed twice; take one away", words.place)
        state = words.take(f"a state of variable {variable}", len(network.states[variable]) - 1)
        given[name] = network.states[variable][state]
    return given


def _count_words(text: str, most: int) -> int:
    words = text.split(None, most)
    return len(words)


def write_evidence_file(given: Mapping[str, str], network: DiscreteNetwork, path: str | os.PathLike[str]) -> None:
    """Write what was observed; an older file is replaced in one step.

    Parameters
    ----------
    given : mapping of str to str
        The state of each observed variable.
    network : CategoricalNetwork or MarkovNetwork
        Whose variables and states are counted.
    path : str or path-like
        Packed if it ends in ``.gz``.

    Raises
    ------
    ArgumentError
        If a variable or a state is not one of the network's.
    FileError
        If the file cannot be written.
    """
    name = check_path(path)
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"given is {given!r}; give a mapping of variables to states")
    positions = {variable: i for i, variable in enumerate(network.names)}
    pairs = [f"{len(given)}"]
    for variable, state in given.items():
        if variable not in positions:
            raise ArgumentError(f"given names {variable!r}, which is not a variable of the network")
        states = network.states[positions[variable]]
        if state not in states:
            raise ArgumentError(f"given[{variable!r}] is {state!r}; the states of {variable!r} are {', '.join(states)}")
        pairs.append(f" {positions[variable]} {states.index(state)}")
    write_text([*pairs, "\n"], name, "evidence")
