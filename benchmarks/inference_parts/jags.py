"""The same questions for JAGS, where it is installed: each node a ``dcat`` of its table, given its parents.

JAGS redraws one node at a time, from its full conditional.  It starts here where ours start, since of itself it draws a
start that most evidence makes impossible, and stops.  Nodes that the question does not depend on are left out, as they
are of ours.  Where a table is deterministic its chains may never reach a part of the states; it says nothing of that.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

NOT_INSTALLED = "JAGS not installed"


def installed():
    return shutil.which("jags") is not None


class Jags:
    """A network with nodes observed, as JAGS sees it; nodes are numbered as in the network, states from 0.

    ``starts`` has the states of all nodes, -1 for those to leave out, in a row for each chain.
    """

    def __init__(self, network, observed, starts):
        self._network, self._observed, self._starts = network, observed, starts
        self.free = [v for v in np.flatnonzero(starts[0] >= 0).tolist() if v not in observed]

    def seconds(self, n_steps):
        """CPU seconds of sweeps over the free nodes, in every chain, beyond those of reading and compiling."""
        return self._run(n_steps, [])[0] - self._run(0, [])[0]

    def draws(self, n_warmup, n_kept):
        """States, shape (chain, draw, free node)."""
        return self._run(n_warmup, self.free, n_kept)[1]

    def _run(self, n_steps, monitored, n_kept=0):
        with tempfile.TemporaryDirectory() as folder:
            self._write(Path(folder), n_steps, monitored, n_kept)
            before = _cpu_of_children()
            done = subprocess.run(["jags", "script"], cwd=folder, capture_output=True, text=True, check=False)
            taken = _cpu_of_children() - before
            if done.returncode or "rror" in done.stdout + done.stderr:
                raise RuntimeError(f"JAGS failed: {(done.stdout + done.stderr)[-500:]}")
            n_chains = len(self._starts)
            files = [Path(folder, f"out_chain{k + 1}.txt") for k in range(n_chains if monitored else 0)]
            chains = [np.loadtxt(file, usecols=1, dtype=np.int64).reshape(len(monitored), -1).T - 1 for file in files]
        return taken, np.array(chains)

    def _write(self, folder, n_steps, monitored, n_kept):
        kept = np.flatnonzero(self._starts[0] >= 0).tolist()
        lines, data = [], []
        for v in kept:
            table = self._network.tables[self._network.names[v]]
            index = ",".join([*(f"v{p}" for p in self._network.parents[v]), f"1:{table.shape[-1]}"])
            lines.append(f"v{v} ~ dcat(t{v}[{index}])")
            numbers = ",".join(map(repr, table.ravel(order="F").tolist()))
            data.append(f"`t{v}` <- structure(c({numbers}), .Dim = c({','.join(map(str, table.shape))}))")
        data += [f"`v{v}` <- {state + 1}" for v, state in self._observed.items()]
        (folder / "model").write_text("model {\n" + "\n".join(lines) + "\n}\n")
        (folder / "data").write_text("\n".join(data) + "\n")
        script = ['model in "model"', 'data in "data"', f"compile, nchains({len(self._starts)})"]
        for k, start in enumerate(self._starts, start=1):
            states = [f"`v{v}` <- {start[v] + 1}" for v in self.free]
            generator = [f"`.RNG.seed` <- {k}", '`.RNG.name` <- "base::Mersenne-Twister"']
            (folder / f"start{k}").write_text("\n".join([*states, *generator]) + "\n")
            script.append(f'parameters in "start{k}", chain({k})')
        script += ["initialize", *([f"update {n_steps}"] if n_steps else [])]
        if monitored:
            script += [*(f"monitor v{v}" for v in monitored), f"update {n_kept}", 'coda *, stem("out_")']
        (folder / "script").write_text("\n".join([*script, "exit"]) + "\n")


def _cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
