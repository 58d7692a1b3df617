"""`save_run`: a posterior over graphs in a new run file, which `doxa.load` reads.

A posterior has draws, options and the reason why its run stopped; it does not know where the chains stand.  A saved
file says so (its option ``saved``): it can be read for ever, and not gone on with.  The file itself is
`doxa.estimates.store`'s; runs that are kept as they go are `doxa.structure.runs.files`'.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from doxa.estimates.store import RunHeader, write_trace
from doxa.estimates.store.writer import stop_as_json
from doxa.structure.moves.by_name import move_settings

if TYPE_CHECKING:
    from doxa.structure.posterior.sample import GraphSample

__all__ = ["KIND", "save_run"]

KIND = "structure"


def save_run(posterior: GraphSample, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a new file, from which `doxa.load` makes an equal one.

    Parameters
    ----------
    posterior : StructurePosterior
        From a finished run, or loaded.  What the score caches of this process did is not kept.
    path : str or path-like
        A name that is not taken.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    ArgumentError
        If the sampler is not one of doxa's own: another could not be made again from the file.

    Examples
    --------
    >>> import doxa, tempfile
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_run(posterior, f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").verdict == posterior.verdict
    True
    """
    write_trace(path, _header(posterior), posterior.trace)


def _header(posterior: GraphSample) -> RunHeader:
    trace, options = posterior.trace, posterior.options
    described = options.to_json() | {
        "sampler": move_settings(posterior.sampler),
        "warmup": trace.n_warmup // trace.thin,
        "draws": trace.n_draws,
        "until": {},
        "source": posterior.source,
        "saved": {"doxa": version("doxa"), "stop": stop_as_json(posterior.stop)},
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    # which versions made the draws, a posterior does not know
    return RunHeader(KIND, described, options.data_digest, {}, trace.n_chains, trace.thin, trace.entropy, created)
