"""A toy run for the tests of the run store: two random walks, stored round by round.

Run as a script it is a server (`support.run_files.serve`) that makes a run for every path.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from doxa.estimates.store import ChainRound, Round, RunHeader, create_run, open_writer
from support.run_files import contents, serve

CHAINS, BLOCK, WARMUP_ROUNDS, ROUNDS, THIN = 2, 40, 3, 12, 2
HEADER = RunHeader(
    "toy", {"draws": BLOCK * ROUNDS}, "no data", {"toy": "1"}, CHAINS, thin=THIN, entropy=5, created="today"
)


def walk(position, steps, rng, n_steps):
    """Steps of a random walk; the state is an array, an int and a float."""
    moves = rng.normal(size=(n_steps, *position.shape)).cumsum(axis=0) + position
    words = rng.integers(0, 2**60, size=(n_steps // THIN, 300), dtype=np.uint64) & np.uint64(0x1010)
    draws = {"x": moves[THIN - 1 :: THIN].copy(), "words": words}
    return {"position": moves[-1], "steps": steps + n_steps, "last": float(moves[-1, 0])}, draws


def start():
    rngs = [np.random.default_rng(np.random.SeedSequence(5, spawn_key=(chain,))) for chain in range(CHAINS)]
    return [({"position": rng.normal(size=3), "steps": 0, "last": 0.0}, rng.bit_generator.state) for rng in rngs]


def next_round(chains, phase):
    parts = []
    for state, rng_state in chains:
        rng = np.random.default_rng()
        rng.bit_generator.state = rng_state
        state, draws = walk(state["position"], state["steps"], rng, BLOCK * THIN)
        info = {"proposed": BLOCK * THIN, "rises": int((draws["x"] > 0).sum())}
        parts.append(ChainRound(draws if phase == "sampling" else {}, info, state, rng.bit_generator.state))
    return Round(phase, BLOCK * THIN, parts)


def go_on(writer, until=ROUNDS):
    """Continue from the last commit, as a driver does."""
    chains = writer.states() or start()
    while writer.n_draws < BLOCK * until:
        warm = writer.n_warmup_steps < BLOCK * THIN * WARMUP_ROUNDS
        done = next_round(chains, "warmup" if warm else "sampling")
        writer.commit(done)
        chains = [(part.state, part.rng_state) for part in done.chains]


def run(path, until=ROUNDS):
    with open_writer(path, HEADER) if Path(path).exists() else create_run(path, HEADER) as writer:
        go_on(writer, until)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    run(tmp_path / "whole.doxa")
    for until in (1, 5, 6, ROUNDS):
        run(tmp_path / "parts.doxa", until)
    assert contents(tmp_path / "parts.doxa") == contents(tmp_path / "whole.doxa")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.doxa", "whole.doxa"]


if __name__ == "__main__":
    serve(run)
