"""Verdict and facts of a run, in words: what heads the page."""

from __future__ import annotations

import re
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import TYPE_CHECKING

from doxa.structure.summary import cap_text, prior_text
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.structure.posterior import StructurePosterior

__all__ = ["run_facts", "verdict"]

_SENTENCES = re.compile(r"(?<=[.)]) (?=[A-Z])")
_NEXT = {
    True: "Nothing need be done; look at the Monte Carlo errors of the numbers that you use.",
    False: "Do not rely on the numbers of this page yet.",
    None: "Take the numbers of this page as provisional.",
}
_STATES = {True: "yes", False: "no", None: "unknown"}


def verdict(posterior: StructurePosterior) -> dict[str, str]:
    """Whether to trust the run: ``state``, the ``word`` for it, ``why``, and ``next``, what to do."""
    word, _, rest = posterior.verdict.partition(": ")
    why, *after = _SENTENCES.split(rest)
    advice = [printable(sentence) for sentence in after]
    return {
        "state": _STATES[posterior.converged],
        "word": word,
        "why": _upper_first(printable(why)),
        "next": " ".join([*advice, "Nothing need be done." if word == "Exact" else _NEXT[posterior.converged]]),
    }


def run_facts(posterior: StructurePosterior, written: datetime) -> list[list[str]]:
    """Names and values: data, model, run, versions and times."""
    options, trace = posterior.options, posterior.trace
    n_chains, n_draws = posterior.n_edges.shape
    exact = posterior.sampler.name == "exact"
    facts = [
        ("Data", f"{options.n_rows} rows, {len(posterior.names)} columns, {options.n_missing or 'no'} missing cells"),
        ("Digest of the data", options.data_digest or "not known"),
        ("Score", options.score.text),
        ("Prior", f"{prior_text(posterior)}; {cap_text(posterior)}"),
        ("Sampler", "sum over all graphs" if exact else repr(posterior.sampler)),
        ("Draws", f"{n_chains} {'chain' if n_chains == 1 else 'chains'} of {n_draws} {_drawn(posterior)}"),
    ]
    if not exact and "proposed" in trace.info:
        accepted = trace.info["accepted"].sum() / max(1, trace.info["proposed"].sum())
        facts.append(("Accepted", f"{accepted:.1%} of the proposals"))
    facts.append(("Seed", "not known" if trace.entropy is None else str(trace.entropy)))
    if posterior.stop is not None:
        facts.append(("Time", f"{posterior.stop.seconds:.3g} s, warm-up not included"))
    if posterior.source is not None and posterior.source.get("source"):
        facts.append(("File", printable(PurePath(str(posterior.source["source"])).name)))
    facts.append(("Versions", ", ".join(f"{name} {_version(name)}" for name in ("doxa", "numpy", "numba"))))
    facts.append(("Page written", written.isoformat(sep=" ", timespec="seconds")))
    return [list(fact) for fact in facts]


def _drawn(posterior: StructurePosterior) -> str:
    if posterior.sampler.name == "exact":
        return "independent draws, for what has no exact sum"
    trace = posterior.trace
    return f"draws, one every {trace.thin} steps, after {trace.n_warmup} steps of warm-up"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"


def _upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]
