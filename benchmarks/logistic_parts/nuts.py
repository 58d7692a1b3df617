"""NUTS by NumPyro, BlackJAX and nutpie on one logistic regression; run by a Python that has them, not by doxa's.

    python nuts.py PROBLEM.npz SEED WARMUP DRAWS [package ...]

The file holds design (rows, d), sign (-1, +1), offset, prior_mean and prior_sd.  Prints a line of JSON for each
package that is there: least bulk effective draws a CPU second of sampling, and the CPU seconds before it (compilation
and warm-up, one chain).
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import json
import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

WARMUP, DRAWS = int(sys.argv[3]), int(sys.argv[4])


def least_ess(draws):
    from arviz_stats.base import array_stats

    return min(
        float(array_stats.ess(draws[:, :, j], chain_axis=0, draw_axis=1, method="bulk")) for j in range(draws.shape[2])
    )


def with_numpyro(data, seed):
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    jax.config.update("jax_enable_x64", True)
    x, y = jnp.array(data["design"]), jnp.array((data["sign"] + 1) // 2)

    def model():
        theta = numpyro.sample(
            "theta", dist.Normal(jnp.array(data["prior_mean"]), jnp.array(data["prior_sd"])).to_event(1)
        )
        numpyro.sample("y", dist.Bernoulli(logits=x @ theta + jnp.array(data["offset"])), obs=y)

    begin = time.process_time()
    mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(seed))  # compiles warm-up and sampling
    mcmc.post_warmup_state = mcmc.last_state
    jax.block_until_ready(mcmc.get_samples()["theta"])
    before = time.process_time() - begin
    begin = time.process_time()
    mcmc.run(mcmc.post_warmup_state.rng_key)
    draws = np.asarray(mcmc.get_samples()["theta"])
    return draws, time.process_time() - begin, before, numpyro.__version__


def with_blackjax(data, seed):
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    rows = jnp.array(data["design"] * data["sign"][:, None])
    offset = jnp.array(data["offset"] * data["sign"])
    mean, sd = jnp.array(data["prior_mean"]), jnp.array(data["prior_sd"])

    def log_density(theta):
        return jax.nn.log_sigmoid(rows @ theta + offset).sum() - 0.5 * (((theta - mean) / sd) ** 2).sum()

    begin = time.process_time()
    keys = jax.random.split(jax.random.PRNGKey(seed), 3)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = adaptation.run(keys[0], mean, num_steps=WARMUP)
    kernel = blackjax.nuts(log_density, **parameters).step

    @jax.jit
    def many(key, state):
        def one(state, key):
            state, _ = kernel(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, DRAWS))

    state, _ = jax.block_until_ready(many(keys[1], state))
    before = time.process_time() - begin
    begin = time.process_time()
    _, draws = jax.block_until_ready(many(keys[2], state))
    return np.asarray(draws), time.process_time() - begin, before, blackjax.__version__


def with_nutpie(data, seed):
    import nutpie
    import pymc as pm

    begin = time.process_time()
    with pm.Model() as model:
        theta = pm.Normal("theta", data["prior_mean"], data["prior_sd"], shape=len(data["prior_mean"]))
        pm.Bernoulli("y", logit_p=data["design"] @ theta + data["offset"], observed=(data["sign"] + 1) // 2)
    compiled = nutpie.compile_pymc_model(model)
    options = {"chains": 1, "cores": 1, "progress_bar": False, "seed": seed, "tune": WARMUP}
    nutpie.sample(compiled, draws=1, **options)
    tuned = time.process_time()
    found = nutpie.sample(compiled, draws=DRAWS, **options)
    both = time.process_time() - tuned
    warm = tuned - begin
    again = time.process_time()
    nutpie.sample(compiled, draws=1, **options)
    seconds = both - (time.process_time() - again)  # the same warm-up, twice
    return np.asarray(found.posterior["theta"])[0], max(seconds, 1e-3), warm, nutpie.__version__


PACKAGES = {"numpyro": with_numpyro, "blackjax": with_blackjax, "nutpie": with_nutpie}


def main() -> None:
    data = dict(np.load(sys.argv[1]))
    seed = int(sys.argv[2])
    for name in sys.argv[5:] or PACKAGES:
        try:
            draws, seconds, before, version = PACKAGES[name](data, seed)
        except ImportError as error:
            print(json.dumps({"package": name, "failed": str(error)}), flush=True)
            continue
        found = {
            "ess_per_second": least_ess(draws[None]) / seconds,
            "before": before,
            "norm": float(np.linalg.norm(draws.mean(axis=0))),
        }
        print(json.dumps({"package": name, "version": version, **found}), flush=True)


if __name__ == "__main__":
    main()
