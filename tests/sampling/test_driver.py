"""The driver with a toy sampler: same seed, same draws; bookkeeping; refusals; interruption."""

from __future__ import annotations

import logging
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, Until
from doxa.sampling import runner
from doxa.sampling.driver import Schedule, fresh_entropy, run_chains, sample
from doxa.sampling.runner import _Kept


@dataclass(frozen=True)
class RandomWalk:
    """A walk whose state is one number; counts its steps, and can be interrupted."""

    thin: int = 3
    stop_at: int | None = None
    calls: list[int] = field(default_factory=list)

    def init(self, rng):
        return float(rng.normal() * 10)

    def run(self, state, n_steps, rng):
        self.calls.append(n_steps)
        if self.stop_at is not None and len(self.calls) > self.stop_at:
            raise KeyboardInterrupt
        kept = []
        for step in range(1, n_steps + 1):
            state += float(rng.normal())
            if step % self.thin == 0:
                kept.append(state)
        draws = {"x": np.array(kept), "pair": np.array(kept)[:, None] * [1, 2]}
        return state, draws, {"proposed": n_steps, "accepted": n_steps // 2}


def test_draws_have_the_shape_and_the_bookkeeping_that_was_asked_for():
    trace = sample(RandomWalk(), Schedule(chains=3, draws=20, warmup=5), seed=1, workers=1)
    assert trace["x"].shape == (3, 20)
    assert trace["pair"].shape == (3, 20, 2)
    assert (trace.thin, trace.n_warmup, trace.entropy) == (3, 15, 1)
    assert trace.info["proposed"].tolist() == [60, 60, 60]  # warm-up is not counted
    assert trace.info["accepted"].tolist() == [30, 30, 30]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_same_seed_same_draws_whatever_the_workers_and_the_blocks(workers, block):
    def run(**options):
        return sample(RandomWalk(), Schedule(4, 30, 10), seed=12, **options)

    assert np.array_equal(run(workers=workers, block=block)["x"], run(workers=1)["x"])


def test_same_seed_same_draws_in_other_processes():
    here = sample(RandomWalk(), Schedule(2, 8, 2), seed=5, workers=1)["x"]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        there = sample(RandomWalk(), Schedule(2, 8, 2), seed=5)["x"]
    assert np.array_equal(here, there)


def test_an_active_joblib_configuration_is_obeyed(monkeypatch):
    seen = []
    real = joblib.Parallel

    def spy(*args, **options):
        seen.append(options["n_jobs"])
        return real(*args, **options)

    monkeypatch.setattr("joblib.Parallel", spy)
    sample(RandomWalk(), Schedule(2, 4, 0), seed=1)
    with joblib.parallel_config(n_jobs=1):
        sample(RandomWalk(), Schedule(2, 4, 0), seed=1)
        sample(RandomWalk(), Schedule(2, 4, 0), seed=1, workers=2)
    with joblib.parallel_config(backend="threading"):
        sample(RandomWalk(), Schedule(2, 4, 0), seed=1)
    sample(RandomWalk(), Schedule(2, 4, 0), seed=1)
    assert seen == [None, 2, None]  # without one, threads of our own


def test_chains_and_seeds_differ():
    one = sample(RandomWalk(), Schedule(3, 10, 0), seed=1, workers=1)["x"]
    two = sample(RandomWalk(), Schedule(3, 10, 0), seed=2, workers=1)["x"]
    assert len({*one.ravel().tolist(), *two.ravel().tolist()}) == 60


def test_more_chains_keep_the_draws_of_the_first():
    few = sample(RandomWalk(), Schedule(2, 10, 4), seed=1, workers=1)["x"]
    many = sample(RandomWalk(), Schedule(5, 10, 4), seed=1, workers=1)["x"]
    assert np.array_equal(few, many[:2])


def test_warm_up_is_the_beginning_of_the_same_chain():
    with_warmup = sample(RandomWalk(), Schedule(2, 10, 4), seed=1, workers=1)["x"]
    without = sample(RandomWalk(), Schedule(2, 14, 0), seed=1, workers=1)["x"]
    assert np.array_equal(with_warmup, without[:, 4:])


def test_a_fresh_seed_is_kept_and_repeats_the_run():
    first = sample(RandomWalk(), Schedule(2, 10, 0), workers=1)
    assert first.entropy is not None
    again = sample(RandomWalk(), Schedule(2, 10, 0), seed=first.entropy, workers=1)
    assert np.array_equal(first["x"], again["x"])
    assert fresh_entropy() != fresh_entropy()


@pytest.mark.parametrize(
    ("stop_at", "note"),
    [
        (1, "interrupted in the warm-up, after 0 of 6 draws of each of the 1 chains"),
        (3, "interrupted in the warm-up, after 4 of 6 draws of each of the 1 chains"),
        (6, "interrupted after 4 of 10 draws of each of the 1 chains; warm-up was done"),
    ],
)
def test_an_interruption_says_how_far_the_run_had_come(stop_at, note):
    with pytest.raises(KeyboardInterrupt) as interruption:
        sample(RandomWalk(stop_at=stop_at), Schedule(1, 10, 6), seed=1, workers=1, block=2)
    assert interruption.value.__notes__ == [note]


def test_compiling_is_announced_once(caplog):
    from numba import njit

    @dataclass(frozen=True)
    class Compiles(RandomWalk):
        kernels: Any = None

        def run(self, state, n_steps, rng):
            for kernel in self.kernels:
                kernel(1)
            return super().run(state, n_steps, rng)

    kernels = [njit(lambda x, k=k: x + k) for k in range(2)]
    with caplog.at_level(logging.INFO, logger="doxa"):
        sample(Compiles(kernels=kernels), Schedule(1, 4, 0), seed=1, workers=1, progress=False)
        assert [record.getMessage() for record in caplog.records] == [
            "compiling, once for this version of doxa (some 5 to 20 seconds)"
        ]
        sample(Compiles(kernels=kernels), Schedule(1, 4, 0), seed=1, workers=1, progress=False)
        assert len(caplog.records) == 1


def test_progress_is_shown_when_asked_for_and_quiet_otherwise(capfd):
    sample(RandomWalk(), Schedule(1, 4, 0), seed=1, workers=1)
    assert capfd.readouterr() == ("", "")
    sample(RandomWalk(), Schedule(1, 4, 0), seed=1, workers=1, progress=False)
    assert capfd.readouterr() == ("", "")
    sample(RandomWalk(), Schedule(1, 4, 2), seed=1, workers=1, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "doxa: preparing to sample",
        "doxa: warm-up: 2 draws of each chain",
        "doxa: sampling: 4 draws of each chain",
    ]


def test_a_run_until_accurate_says_what_holds_it_back(capfd, monkeypatch):
    monkeypatch.setattr("doxa.progress.Status._is_time", lambda _: True)
    looks = iter([Shortfall("a -> b", "Monte Carlo error", 0.02, 0.01, 4.0), None])
    options = {"assess": lambda trace: next(looks), "seed": 1, "workers": 1, "block": 100, "until": Until()}
    run_chains(RandomWalk(), Schedule(1, None, 0), **options, progress=True)
    lines = capfd.readouterr().err.splitlines()
    missing = "; the Monte Carlo error of a -> b is 0.02 (asked: 0.01)"
    assert not any(missing in line for line in lines if " 500 draws" in line)  # nobody has looked yet
    assert lines[-1].startswith("doxa: sampling: 625 draws of each chain, ")
    assert lines[-1].endswith(f" left{missing}")


@pytest.mark.parametrize(
    ("schedule", "options", "error", "message"),
    [
        ((0, 10, 0), {}, ArgumentError, "chains is 0; it must be at least 1"),
        ((-3, 10, 0), {}, ArgumentError, "chains is -3; it must be at least 1"),
        ((1.5, 10, 0), {}, ArgumentTypeError, "chains is 1.5; it must be a whole number of at least 1"),
        ((True, 10, 0), {}, ArgumentTypeError, "chains is True; it must be a whole number of at least 1"),
        (
            (1, 3, 0),
            {},
            ArgumentError,
            "draws is 3; it must be at least 4 (each chain is compared with itself in halves)",
        ),
        ((1, 4, -1), {}, ArgumentError, "warmup is -1; it must be at least 0"),
        ((1, 4, 0), {"seed": -1}, ArgumentError, "seed is -1; it must be at least 0"),
        ((1, 4, 0), {"seed": "x"}, ArgumentTypeError, "seed is 'x'; it must be a whole number of at least 0"),
        ((1, 4, 0), {"workers": 0}, ArgumentError, "workers is 0; it must be at least 1"),
        ((1, 4, 0), {"block": 0}, ArgumentError, "block is 0; it must be at least 1"),
    ],
)
def test_bad_counts_are_refused_by_name(schedule, options, error, message):
    with pytest.raises(error) as refused:
        sample(RandomWalk(), Schedule(*schedule), **{"seed": 1, **options})
    assert str(refused.value) == message


def test_a_bad_thin_is_refused():
    with pytest.raises(ArgumentError) as refused:
        sample(RandomWalk(thin=0), Schedule(1, 4, 0), seed=1)
    assert str(refused.value) == "thin is 0; it must be at least 1"


def test_draws_are_kept_once_and_what_was_handed_out_stays():
    rng, kept, parts, handed = np.random.default_rng(2), _Kept(), [], []
    for size in (3, 1, 1, 20, 2, 5):
        blocks = [{"x": rng.normal(size=(size, 2)), "n": rng.integers(9, size=size)} for _ in range(3)]
        parts.append(blocks)
        kept.add(blocks, wanted=40)
        if size == 1:
            handed.append((kept.draws(), len(parts)))
    handed.append((kept.draws(), len(parts)))
    for draws, n_parts in handed:
        for name, values in draws.items():
            whole = [np.concatenate([part[chain][name] for part in parts[:n_parts]]) for chain in range(3)]
            assert np.array_equal(values, np.stack(whole))
            assert values.flags.c_contiguous
    assert np.shares_memory(kept.draws()["x"], handed[-1][0]["x"])


@dataclass(frozen=True)
class Wide:
    """A sampler of draws that take much memory."""

    thin: int = 1

    def init(self, rng):
        return float(rng.normal())

    def run(self, state, n_steps, rng):
        return state, {"x": rng.random((n_steps, 2000))}, {}


def most_of(monkeypatch, **blocks):
    """Peak of the memory of a run, in units of its draws."""
    for name, value in blocks.items():
        monkeypatch.setattr(runner, name, value)
    sample(Wide(), Schedule(2, 8, 0), seed=1, workers=1)  # imports
    tracemalloc.start()
    trace = sample(Wide(), Schedule(2, 500, 0), seed=1, workers=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / trace["x"].nbytes


def test_the_draws_of_a_run_stand_in_memory_once(monkeypatch):
    assert most_of(monkeypatch, _FIRST_STEPS=4, _BYTES_PER_BLOCK=2**18) < 1.7  # the last doubling stands beside it


def test_with_a_copy_for_every_look_they_do_not(monkeypatch):
    draws = _Kept.draws
    monkeypatch.setattr(_Kept, "draws", lambda self: {name: values.copy() for name, values in draws(self).items()})
    assert most_of(monkeypatch, _FIRST_STEPS=4, _BYTES_PER_BLOCK=2**18) > 1.9
