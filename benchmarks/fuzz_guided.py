"""Files that nobody sound would write, looked for by coverage: those that reach new branches of the readers are kept.

    pip install atheris
    python benchmarks/fuzz_guided.py bif --seconds 120 --corpus corpus/bif

The formats, and what is done with a file, are those of `benchmarks/fuzz.py`, network files, evidence and graphs; it
changes files by what their formats are made of, and this one by what the readers look at.  Atheris (libFuzzer) is no
dependency of the project.  The number of inputs is in the last line, ``Done ... runs``.
An uncaught error or more than ten seconds ends the run, and the input is saved beside the corpus as ``crash-...`` or
``timeout-...``; it belongs into the tests, as its own small file.  Run files are behind checksums, so are not for it.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: pip install atheris, or use benchmarks/fuzz.py")

with atheris.instrument_imports(
    include=["doxa.models.network_files", "doxa.models.graph_files", "doxa.models.evidence"]
):
    import doxa.models.evidence
    import doxa.models.graph_files
    import doxa.models.network_files

    for _module in sorted((Path(doxa.__file__).parent / "models" / "network_files").glob("*.py")):
        __import__(f"doxa.models.network_files.{_module.stem}")

import numpy as np

from fuzz_parts.texts import Format, text_formats

__all__ = ["one_input"]


def one_input(form: Format, path: Path, data: bytes) -> str:
    """Read one input; what is no `doxa.DoxaError` is let through."""
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            form.use(path, np.random.default_rng(0))
    except doxa.DoxaError:
        return "refused"
    return "accepted"


def main() -> None:
    """Read the words of the command line, and hand over to libFuzzer, which ends the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("format", help="as benchmarks/fuzz.py has them: bif, xmlbif, net, dsc, xdsl, uai, json, ...")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="a folder of inputs that is read and added to")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp())  # libFuzzer leaves without a word to Python
    formats = text_formats(folder)
    if asked.format not in formats:
        sys.exit(f"there is no such format; there are {', '.join(formats)}")
    form = formats[asked.format]
    corpus = asked.corpus or folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for whole in form.whole:
        (corpus / whole.name).write_bytes(whole.read_bytes())
    path = folder / f"input{form.end}"

    def test(data: bytes) -> Any:
        one_input(form, path, data)

    limits = [f"-max_total_time={asked.seconds}", "-timeout=10", "-max_len=20000", f"-seed={asked.seed}"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={corpus.parent}/", str(corpus)], test)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
