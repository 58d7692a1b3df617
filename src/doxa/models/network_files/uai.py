"""Read and write UAI, numbers alone, for networks of either kind, and evidence.

    BAYES                    the kind: BAYES or MARKOV
    2                        how many variables
    2 2                      how many states each of them has
    2                        how many tables
    1 0                      of each: how many variables it has, and which; in BAYES the child is the last
    2 0 1
    2  0.4 0.6               of each: how many numbers it has, and which; the last variable varies fastest
    4  0.2 0.8 0.9 0.1

Values are factors of the joint distribution, not logarithms.  What stands behind ``#`` is a comment, and so is a line
that begins with the word ``c``.  The format has no names: variables are called X0, X1, ... and states 0, 1, ..., except
where comments, which `write_network` leaves behind the last number, give all of them: ``# variable 0: ["rain", "no",
"yes"]``.

Numbers are written without exponents, which some readers do not know; names follow as comments behind the last number,
where most readers have stopped.

Evidence is how many variables are observed, then pairs of a variable and its state, as in ``2  0 1  3 0``: numbers from
0.  An older form begins with the number of records, here one, each as above.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from math import prod

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.factors import DiscreteNetwork
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files.draft import Draft, check_sizes, repeated_number
from doxa.models.network_files.names import Names, name_comments, read_names
from doxa.models.network_files.source import Limits, Source, blanked, check_path, open_source, shown, write_text
from doxa.models.network_files.tables import Numbers, Rows, finish

_COMMENT = re.compile(r"#[^\n]*+|^c(?!\S)[^\n]*+", re.MULTILINE)
_WORD = re.compile(r"\s*+(\S++|\Z)")


class Integers:
    """Whole numbers of a text, taken one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.position = 0
        self.place = 0  # of the last word

    def take_word(self) -> str:
        """The next word; empty at the end."""
        found = _WORD.match(self._source.text, self.position)
        assert found is not None  # it may be empty
        self.place, self.position = found.span(1)
        return found[1]

    def take(self, what: str, most: int = 10**18) -> int:
        """The next word, which has to be a whole number of at most ``most``."""
        word = self.take_word()
        if not word:
            self._source.refuse(f"the file ends where {what} should stand: it has been cut off", self.place)
        if not (word.isascii() and word.isdigit()):
            self._source.refuse(f"{shown(word)} stands where {what} should, a whole number", self.place)
        if len(word) > 18:
            self._source.refuse(f"{what} is a number of {len(word)} digits", self.place)
        if int(word) > most:
            self._source.refuse(f"{what} is {word}, and can be {most} at most", self.place)
        return int(word)


class _Scopes:
    """Which variables each factor has, in arrays: a factor may take three characters and no more."""

    def __init__(self) -> None:
        self._variables, self._ends, self._places = array("i"), array("q", [0]), array("q")

    def append(self, variables: array[int], place: int) -> None:
        self._variables.extend(variables)
        self._ends.append(len(self._variables))
        self._places.append(place)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, k: int) -> array[int]:
        return self._variables[self._ends[k] : self._ends[k + 1]]

    def place(self, k: int) -> int:
        return self._places[k]


def default_name(variable: int) -> str:
    """What a variable is called that has no name."""
    return f"X{variable}"


def read_uai(source: Source) -> CategoricalNetwork | MarkovNetwork:
    """Read a network, or raise `NetworkFileError`."""
    original, source = source, blanked(source, _COMMENT)
    words = Integers(source)
    kind = words.take_word()
    if kind not in ("BAYES", "MARKOV"):
        source.refuse(f"{shown(kind)} is no kind of network; a UAI file begins with BAYES or MARKOV", words.place)
    n_states = _read_variables(source, words)
    scopes = _read_scopes(source, words, len(n_states))
    given = read_names(original, n_states) if "#" in original.text else None
    if kind == "BAYES":
        return _read_bayes(source, words, n_states, scopes, given)
    return _read_markov(source, words, n_states, scopes, given)


def _read_variables(source: Source, words: Integers) -> array[int]:
    limits = source.limits
    n = words.take("the number of variables")
    if n == 0:
        source.refuse("there are no variables; a network has at least one", words.place)
    if n > limits.max_variables:
        source.refuse_too_many(f"there are {n} variables", n, "max_variables", words.place)
    n_states, total = array("q"), 0
    for i in range(n):
        n_states.append(words.take(f"the number of states of variable {i}"))
        total += n_states[-1]
        if n_states[-1] == 0:
            source.refuse(f"variable {i} has no states; it has at least one", words.place)
        if total > limits.max_states:
            things = f"the variables up to here have {total} states"
            source.refuse_too_many(things, 1 << total.bit_length(), "max_states", words.place)
    return n_states


def _read_scopes(source: Source, words: Integers, n_variables: int) -> _Scopes:
    n_factors = words.take("the number of factors", len(source.text))
    scopes = _Scopes()
    for k in range(n_factors):
        size = words.take(f"the number of variables of factor {k}", n_variables)
        place = words.place
        what = f"a variable of factor {k}"
        variables = array("i", (words.take(what, n_variables - 1) for _ in range(size)))
        if repeated_number(variables) is not None:
            source.refuse(f"factor {k} names a variable more than once; name it once", place)
        scopes.append(variables, place)
    return scopes


def _read_numbers(source: Source, words: Integers, numbers: Numbers, k: int, n_expected: int) -> None:
    n = words.take(f"the number of entries of factor {k}")
    if n != n_expected:
        source.refuse(f"factor {k} has {n} entries; by its variables it has {n_expected}", words.place)
    before = len(numbers)
    words.position = numbers.take_some(words.position, n)
    if len(numbers) - before < n:
        cause = f"the file ends after {len(numbers) - before} of the {n} entries of factor {k}: it has been cut off"
        source.refuse(cause, words.position)


def _expect_end(source: Source, words: Integers) -> None:
    if word := words.take_word():
        source.refuse(f"{shown(word)} stands behind the last table, where the file should end", words.place)


def _read_bayes(
    source: Source, words: Integers, n_states: Sequence[int], scopes: _Scopes, given: Names | None
) -> CategoricalNetwork:
    draft = Draft(source, given and given.labels)
    draft.add_numbered(n_states, given and given.names)
    for k in range(len(scopes)):
        place, variables = scopes.place(k), scopes[k]
        if not variables:
            source.refuse(f"factor {k} has no variable; in a file of the kind BAYES the last is its child", place)
        draft.add_family(variables[-1], variables[:-1], place)
    draft.check()
    rows = Rows(draft)
    for k in range(len(scopes)):
        _read_numbers(source, words, rows.numbers, k, prod(draft.shape(k)))
        rows.end_table()
    _expect_end(source, words)
    return finish(rows)


def _read_markov(
    source: Source, words: Integers, n_states: Sequence[int], scopes: _Scopes, given: Names | None
) -> MarkovNetwork:
    shapes = ([n_states[i] for i in scopes[k]] for k in range(len(scopes)))
    sizes = check_sizes(source, ((f"factor {k}", shape, scopes.place(k)) for k, shape in enumerate(shapes)))
    numbers, firsts = Numbers(source), array("q")
    for k, size in enumerate(sizes):
        firsts.append(len(numbers))
        _read_numbers(source, words, numbers, k, size)
    _expect_end(source, words)
    values = numbers.array()
    bad = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if bad.size:
        cause = f"the factor has the entry {values[bad[0]]:.9g}; entries are finite and at least 0"
        source.refuse(cause, numbers.place(int(bad[0])))
    zero = np.flatnonzero(np.maximum.reduceat(values, firsts) == 0) if firsts else np.empty(0, dtype=np.int64)
    if zero.size:
        k = int(zero[0])
        source.refuse(f"factor {k} is 0 everywhere, so that nothing is possible", scopes.place(k))
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    names = [default_name(i) for i in range(len(n_states))] if given is None else list(given.names)
    labels = map(str, chain.from_iterable(map(range, n_states))) if given is None else iter(given.labels)
    potentials = []
    for k, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
        table = logs[first : first + size].reshape([n_states[i] for i in scopes[k]])
        potentials.append(([names[i] for i in scopes[k]], table))
    return MarkovNetwork({name: list(islice(labels, n)) for name, n in zip(names, n_states, strict=True)}, potentials)


def uai_pieces(network: CategoricalNetwork | MarkovNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits."""
    if isinstance(network, CategoricalNetwork):
        kind = "BAYES"
        scopes: list[tuple[int, ...]] = [(*parents, node) for node, parents in enumerate(network.parents)]
        tables = [network.tables[name] for name in network.names]
    else:
        kind = "MARKOV"
        scopes = [factor.variables for factor in network.factors]
        tables = [linear_potential(network, k) for k in range(len(scopes))]
    n_states = [len(labels) for labels in network.states]
    yield f"{kind}\n{len(n_states)}\n{' '.join(map(str, n_states))}\n{len(scopes)}\n"
    for scope in scopes:
        yield f"{len(scope)} {' '.join(map(str, scope))}\n"
    for table in tables:
        yield f"\n{table.size}\n"
        for row in table.reshape(-1, table.shape[-1] if table.ndim else 1).tolist():
            yield f" {' '.join(map(_written, row))}\n"
    default = [default_name(i) for i in range(len(n_states))]
    numbers = [[str(k) for k in range(n)] for n in n_states]
    yield from name_comments(network, default, numbers, "# ")


def linear_potential(network: MarkovNetwork, k: int) -> NDArray[np.float64]:
    """Exponentials of the logs of factor ``k``; a constant taken out of them would change the partition function."""
    variables, log_values = network.factors[k]
    with np.errstate(over="ignore", under="ignore"):
        values: NDArray[np.float64] = np.exp(log_values)
    normal = (values >= np.finfo(np.float64).tiny) & np.isfinite(values)
    lost = log_values[~normal & ~np.isneginf(log_values)]
    if lost.size:
        over = ", ".join(network.names[v] for v in variables) or "nothing"
        raise ArgumentError(
            f"the potential over {over} has the log value {lost[0]:.9g}; what other programs read are "
            "exponentials, numbers for logs from -708 to 709 only: subtract a constant from the potential"
        )
    return values


def _written(value: float) -> str:
    text = repr(value)
    return np.format_float_positional(value, trim="-") if "e" in text else text


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
    source = blanked(open_source(check_path(path), limits, "evidence"), _COMMENT)
    n_words = len(source.text.split(None, 2 * len(network.names) + 4))
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
