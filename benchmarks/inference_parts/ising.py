"""Updates of Ising and Potts models a nanosecond: doxa's kernels, and packages from PyPI beside them.

    python benchmarks/inference_parts/ising.py [ours | potts | peers | all]

CPU seconds of one process, whatever threads a package starts.  Square lattices that wrap around, L = 64 and 512:
*even* is J = 0.44, h = 0.01 everywhere, *uneven* has J ~ N(0, 1) on each edge and h ~ N(0, 0.1^2) at each site.  Set-up
is not counted: of two runs of different length the difference is timed, the median of BENCH_REPEATS (3) such.  The mean
energy of a site (of the last state where a package gives no other) tells whether two figures are of the same thing.

Ours: throughput alone, and with marginals, both with one draw a run and with one in ten sweeps (energy and
magnetisation are worked out for each, and with marginals a probability for every site).  Potts models: L = 256
(BENCH_POTTS_SIDE), even is J = 0.8, h = 0.01 a; uneven J ~ N(0, 1), h ~ N(0, 0.1^2); figures of "64 chains" count the
updates of all.

Peers run in the Python that ISING_PYTHON names: dwave-samplers, peapods (it takes no field), ferrotherm, thrml (jax).
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

POTTS_SIDE = int(os.environ.get("BENCH_POTTS_SIDE", "256"))
REPEATS = int(os.environ.get("BENCH_REPEATS", "3"))
SIDES = [int(side) for side in os.environ.get("BENCH_SIDES", "64,512").split(",")]
SECONDS = 0.5  # of the longer run, about


def lattice(side, kind):
    """Edges to the right, then down; couplings; fields."""
    site = np.arange(side * side).reshape(side, side)
    edges = np.concatenate([np.stack([site, np.roll(site, -1, axis)], -1).reshape(-1, 2) for axis in (1, 0)])
    if kind == "even":
        return edges, np.full(len(edges), 0.44), np.full(side * side, 0.01)
    rng = np.random.default_rng(0)
    return edges, rng.normal(size=len(edges)), rng.normal(0, 0.1, side * side)


def energy(edges, couplings, fields, spins):
    """Mean over chains (..., n), a site."""
    s = np.asarray(spins, dtype=float)
    total = (s[..., edges[:, 0]] * s[..., edges[:, 1]]) @ couplings + s @ fields
    return float(-np.mean(total) / len(fields))


def seconds(work, n):
    begin = time.process_time()
    found = work(n)
    return time.process_time() - begin, found


def rate(work, n_updates, shortest=1):
    """Updates a nanosecond of ``work(n_sweeps)``, from runs of n and 3 n sweeps; and what the last returned."""
    n = shortest
    taken, _ = seconds(work, n)
    taken, _ = seconds(work, n)
    while taken < SECONDS / 8 and n < 10**6:
        n *= 2
        taken, _ = seconds(work, n)
    n = max(shortest, int(n * SECONDS / (4 * max(taken, 1e-6))) // shortest * shortest)
    differences, found = [], None
    for _ in range(REPEATS):
        short, _ = seconds(work, n)
        long, found = seconds(work, 3 * n)
        differences.append(long - short)
    return n_updates * 2 * n / median(differences) / 1e9, found


def report(name, side, kind, figure, mean_energy):
    print(f"{name:52s} L = {side:4d}  {kind:7s} {figure:8.4f} a ns   mean energy {mean_energy:8.4f}", flush=True)


def ours() -> None:
    from dataclasses import replace

    from doxa.inference.spins import IsingBitParallel, IsingGibbs, IsingGrid, IsingModel, SwendsenWang

    for side in SIDES:
        for kind in ("even", "uneven"):
            edges, couplings, fields = lattice(side, kind)
            model = IsingModel(edges, couplings, fields)
            samplers: dict[str, Any] = {
                "64 chains": IsingBitParallel(model),
                "one chain, 64 sites at a time": IsingGrid(model, (side, side)),
                "one chain, site by site, coloured": IsingGibbs(model),
                "one chain, site by site, cyclic": IsingGibbs(model, "cyclic"),
                "one chain, site by site, random": IsingGibbs(model, "random"),
                "Swendsen-Wang": SwendsenWang(model),
            }
            for name, sampler in samplers.items():
                for marginals in (False, True) if "random" not in name else (False,):
                    for thin in (None, 10) if "site by site" not in name else (None,):
                        measure_ours(name, replace(sampler, marginals=marginals), thin, side, kind)


def potts() -> None:
    from dataclasses import replace

    from doxa.inference.spins import PottsBitParallel, PottsGibbs, PottsModel

    side = POTTS_SIDE
    for kind in ("even", "uneven"):
        edges, couplings, _ = lattice(side, kind)
        for q in (2, 3, 4):
            if kind == "even":
                model = PottsModel(edges, 0.8, np.tile(0.01 * np.arange(q), (side**2, 1)))
            else:
                model = PottsModel(edges, couplings, np.random.default_rng(1).normal(0, 0.1, (side**2, q)))
            for name, sampler in (("one chain", PottsGibbs(model)), ("64 chains", PottsBitParallel(model))):
                for marginals, thin in ((False, None), (True, None), (True, 10)):
                    label = f"Potts, {q} states, {name}"
                    measure_ours(label, replace(sampler, marginals=marginals), thin, side, kind)


def measure_ours(name, sampler, thin, side, kind) -> None:
    name += (", marginals" if sampler.marginals else "") + (f", thin {thin}" if thin else "")
    state = [sampler.init(np.random.default_rng(1))]
    sampler.run(state[0], sampler.thin, np.random.default_rng(0))  # compiles, and makes the tables

    def work(n):
        object.__setattr__(sampler, "thin", thin or n)  # a new sampler would make its tables again
        state[0], draws, info = sampler.run(state[0], n, np.random.default_rng(0))
        return draws["energy"].mean(), info["updates"] / n

    per_sweep = 64 * side**2 if "64 chains" in name else side**2
    figure, (mean_energy, counted) = rate(work, per_sweep, thin or 1)
    assert counted == per_sweep
    report(name, side, kind, figure, mean_energy / side**2)


def dwave(side, kind, edges, couplings, fields) -> None:
    from dwave.samplers import SimulatedAnnealingSampler

    h, j = dict(enumerate(-fields)), {(int(a), int(b)): -c for (a, b), c in zip(edges, couplings, strict=True)}
    sampler = SimulatedAnnealingSampler()
    for rule in ("Gibbs", "Metropolis"):

        def work(n, rule=rule):
            return sampler.sample_ising(
                h, j, num_reads=1, num_sweeps_per_beta=n, beta_schedule_type="custom", beta_schedule=[1.0], seed=1,
                proposal_acceptance_criteria=rule,
            )  # fmt: skip

        figure, found = rate(work, side**2, 200 if side < 100 else 20)
        spins = found.record.sample[0][np.argsort(found.variables)]
        report(f"dwave-samplers, {rule}", side, kind, figure, energy(edges, couplings, fields, spins))


def peapods(side, kind, edges, couplings, fields) -> None:  # noqa: ARG001
    from peapods import Ising

    right, down = couplings.reshape(2, side, side).astype(np.float32)
    for replicas in (1, 16):
        model = Ising(
            (side, side), couplings=np.stack([down, right], axis=-1), temperatures=np.array([1.0]), n_replicas=replicas
        )

        def work(n, model=model):
            model.sample(n, sweep_mode="gibbs", warmup_ratio=0.0, sequential=True)
            return -float(np.mean(model.energies_avg))  # its energies are those of doxa turned over

        figure, found = rate(work, replicas * side**2, 20)
        report(f"peapods, Gibbs, {replicas} chains, no field", side, kind, figure, found)


def ferrotherm(side, kind, edges, couplings, fields) -> None:
    from ferrotherm import Model

    model = Model(side**2)
    model.couple_many([(int(a), int(b), float(c)) for (a, b), c in zip(edges, couplings, strict=True)])
    for i, field in enumerate(fields):
        model.bias(i, float(field))
    chain = model.build(beta=1.0, seed=1)

    def work(n):
        chain.sweep(n)

    figure, _ = rate(work, side**2, 10)
    spins = np.asarray(chain.numpy())
    report("ferrotherm", side, kind, figure, energy(edges, couplings, fields, np.where(spins > 0, 1, -1)))


def thrml(side, kind, edges, couplings, fields) -> None:
    import jax
    import jax.numpy as jnp
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    nodes = [SpinNode() for _ in range(side**2)]
    parity = np.add(*np.divmod(np.arange(side**2), side)) % 2
    free = [Block([nodes[i] for i in np.flatnonzero(parity == colour)]) for colour in (0, 1)]
    pairs = [(nodes[a], nodes[b]) for a, b in edges]
    ebm = IsingEBM(nodes, pairs, jnp.array(fields), jnp.array(couplings), jnp.array(1.0))
    program = IsingSamplingProgram(ebm, free, clamped_blocks=[])
    for chains in (1, 64) if side < 100 else (1,):
        start = hinton_init(jax.random.key(0), ebm, free, (chains,))
        compiled = {}

        def work(n, chains=chains, start=start, compiled=compiled):
            if n not in compiled:  # it compiles anew for each length; the second call is timed
                schedule = SamplingSchedule(n_warmup=n, n_samples=1, steps_per_sample=1)
                run = jax.jit(
                    jax.vmap(lambda state, key: sample_states(key, program, schedule, state, [], [Block(nodes)]))
                )
                compiled[n] = run
                jax.block_until_ready(run(start, jax.random.split(jax.random.key(1), chains)))
            return jax.block_until_ready(compiled[n](start, jax.random.split(jax.random.key(2), chains)))

        n = {1: 1000, 64: 100}[chains] if side < 100 else 20
        work(n), work(3 * n)
        times = []
        for _ in range(REPEATS):
            short, _ = seconds(work, n)
            long, found = seconds(work, 3 * n)
            times.append(long - short)
        spins = 2 * np.asarray(found[0], dtype=int).reshape(chains, -1) - 1
        figure = chains * side**2 * 2 * n / median(times) / 1e9
        report(f"thrml, {chains} chains", side, kind, figure, energy(edges, couplings, fields, spins))


def peers() -> None:
    for package in (dwave, peapods, ferrotherm, thrml):
        for side in SIDES:
            for kind in ("even", "uneven"):
                try:
                    package(side, kind, *lattice(side, kind))
                except Exception as error:  # a package that does not run is a line of the report
                    said = f"{type(error).__name__}: {str(error)[:200]}"
                    print(f"{package.__name__} L = {side} {kind}: {said}", flush=True)


def main() -> None:
    asked = sys.argv[1:] or ["all"]
    if asked == ["--peers-here"]:
        peers()
        return
    if asked[0] in ("ours", "all"):
        ours()
    if asked[0] in ("potts", "all"):
        potts()
    if asked[0] in ("peers", "all"):
        python = os.environ.get("ISING_PYTHON")
        if python is None:
            print("no peers: ISING_PYTHON names no Python that has them")
            return
        subprocess.run([python, __file__, "--peers-here"], check=True)


if __name__ == "__main__":
    main()
