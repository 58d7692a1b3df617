"""`load` and `resume` for every kind of run: the file says what it holds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from doxa.estimates.store import open_reader

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from doxa.data import Table
    from doxa.estimates.stopping import Until
    from doxa.parameters import ParameterAverages, ParameterPosterior
    from doxa.structure.averaging.posterior import Posterior

__all__ = ["load", "resume"]


def load(
    path: str | os.PathLike[str], table: Table | IntoDataFrame | str | os.PathLike[str] | None = None
) -> Posterior | ParameterPosterior | ParameterAverages:
    """Read the posterior of a run file, finished or not, even while it is written.

    Parameters
    ----------
    path : str or path-like
        A file that `doxa.learn` or `doxa.fit` made with ``store=...``, or in which a posterior was saved.
    table : Table, data frame or path, optional
        Of a run over graphs, the table that it was learned from, which queries and predictions need; when left out it
        is read again from where it was read then, once it is asked for.  Of a fit of parameters made with ``store=``,
        the table that it was made from: with it `ParameterPosterior.approximation` is found again, in the time that the
        search took then; nothing else of a fit needs the table.

    Returns
    -------
    Posterior, ParameterPosterior or ParameterAverages
        Of the kind that the file holds.

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, or holds no draws yet.
    ArgumentError
        If the table is another, or is given for a saved fit of parameters, which does not say how it was approximated.

    Examples
    --------
    >>> import doxa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = doxa.learn(doxa.datasets.load("reinis"), draws=100, seed=1, store=f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").edges().equals(made.edges())
    True
    """
    if _kind(path) == "parameters":
        from doxa.parameters.fit import load as load_fit

        return load_fit(path, table)
    from doxa.structure.learn import load as load_graphs

    return load_graphs(path, table)


def resume(
    path: str | os.PathLike[str],
    table: Table | IntoDataFrame | str | os.PathLike[str] | None = None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Posterior | ParameterPosterior | ParameterAverages:
    """Go on with a run that is kept in a file: one that was interrupted, or one that is to be longer.

    Parameters
    ----------
    path : path
        The file given to ``learn(..., store=path)`` or ``fit(..., store=path)``.
    table : Table, data frame or path, optional
        The same table as before; when left out it is read again from where it was read then.
    draws : int, optional
        Draws of each chain in all; as the run was started when left out.
    until : Until, optional
        When to stop instead.
    workers, progress
        As for `learn` and `fit`.

    Returns
    -------
    Posterior, ParameterPosterior or ParameterAverages
        With the draws that a run never interrupted would have.

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, is being written, or was started with another table or other versions; every
        difference is named.
    ArgumentError
        If both ``draws`` and ``until`` are given.

    Examples
    --------
    >>> import doxa, tempfile
    >>> table = doxa.datasets.load("reinis")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     part = doxa.learn(table, draws=50, warmup=10, seed=1, store=f"{folder}/run.doxa")
    ...     more = doxa.resume(f"{folder}/run.doxa", table, draws=80)
    >>> whole = doxa.learn(table, draws=80, warmup=10, seed=1)
    >>> bool((more.trace["rows"] == whole.trace["rows"]).all())
    True
    """
    options: dict[str, Any] = {"draws": draws, "until": until, "workers": workers, "progress": progress}
    if _kind(path) == "parameters":
        from doxa.parameters.fit import resume as resume_fit

        return resume_fit(path, table, **options)
    from doxa.structure.learn import resume as resume_graphs

    return resume_graphs(path, table, **options)


def _kind(path: str | os.PathLike[str]) -> str:
    with open_reader(path, check=False) as reader:
        return reader.header.kind
