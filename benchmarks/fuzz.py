"""Files that nobody sound would write: changed at random, by what their formats are made of, and read.

    python benchmarks/fuzz.py --seconds 600 --seed 1
    python benchmarks/fuzz.py --formats run --seed 1 --only 4711      # one input again, with its traceback

Each input is a sound file with some words, branches, arrays or bytes changed; run files keep right checksums, as a
forger's would.  It is read and asked a few questions, and run files are gone on with.  A `doxa.DoxaError` is a refusal;
any other exception, a crash of the interpreter, more than ten seconds, and, of network files, a refusal that took more
memory than 20 times the file and a little, are findings, which the last column names by the numbers of their inputs.

Inputs are read in children of this process, so that a crash or an endless loop costs one of them.  The same seed draws
the same inputs.  Nothing is kept; a finding belongs into the tests, as its own small file or call.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import gzip
import json
import logging
import resource
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import doxa
from fuzz_parts.runs import run_formats
from fuzz_parts.texts import Format, text_formats

__all__ = ["Tally", "fuzz", "make_formats", "try_one"]

_LONGEST = 10.0  # seconds of one input
_SLICES = 2.0, 20.0  # seconds of processor that a child works, at least and at most
_ROOM = 2**33  # bytes of address space that a child may take beyond what it has: absurd sizes are then an error
_TRACED = 40  # one input in so many is read with its memory watched
_SMALL = 2**20  # bytes that a refusal may take in any case


@dataclass
class Tally:
    """What became of the inputs of one format."""

    tried: int = 0
    refused: int = 0
    accepted: int = 0
    uncaught: int = 0
    slow: int = 0
    crashed: int = 0
    memory: int = 0
    seconds: float = 0.0  # of processor
    longest: float = 0.0  # of one input
    peak: int = 0  # bytes of memory of a child
    findings: dict[str, list[int]] = field(default_factory=dict)  # inputs by what went wrong

    @property
    def failed(self) -> int:
        """Inputs that are findings."""
        return self.uncaught + self.slow + self.crashed + self.memory

    def found(self, what: str, number: int) -> None:
        """One more input that went wrong."""
        self.findings.setdefault(what, []).append(number)

    def add(self, other: Tally) -> None:
        """The same, and what another says."""
        for name in ("tried", "refused", "accepted", "uncaught", "slow", "crashed", "memory", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest, self.peak = max(self.longest, other.longest), max(self.peak, other.peak)
        for what, numbers in other.findings.items():
            self.findings.setdefault(what, []).extend(numbers)


def make_formats(folder: Path, names: Sequence[str] = ()) -> dict[str, Format]:
    """The formats of these names, or all; their sound files are made in a folder, read once, and must be accepted."""
    formats = {} if names == ["run"] else text_formats(folder)
    if not names or "run" in names:
        formats |= run_formats(folder)
    formats = {name: form for name, form in formats.items() if not names or name in names}
    for form in formats.values():
        for whole in form.whole:
            copy = folder / f"{whole.name.removesuffix(form.end)}-sound{form.end}"
            copy.write_bytes(whole.read_bytes())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                form.use(copy, np.random.default_rng(0))
    return formats


def drawn(name: str, form: Format, seed: int, number: int, folder: Path) -> tuple[Path, np.random.Generator]:
    """One input in a file, and the generator that draws what is done with it."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    whole = form.whole[int(rng.integers(len(form.whole)))]
    path = folder / f"{whole.name.removesuffix(form.end)}-{name.replace(' ', '_')}{form.end}"
    form.change(rng, whole, path)
    return path, rng


def bytes_of(path: Path) -> int:
    """Bytes of a file as it is read: unpacked, as far as that goes."""
    size, unpacked = path.stat().st_size, 0
    if path.suffix == ".gz":
        with suppress(OSError, EOFError, zlib.error), gzip.open(path) as stream:
            while part := stream.read(2**16):
                unpacked += len(part)
    return max(size, unpacked)


def try_one(name: str, form: Format, seed: int, number: int, folder: Path, *, traced: bool = False) -> Tally:
    """Read one input, and say what became of it."""
    path, rng = drawn(name, form, seed, number, folder)
    tally, begin, traced = Tally(tried=1), time.process_time(), traced and form.is_linear
    if traced:
        tracemalloc.start()
    try:
        form.use(path, rng)
        tally.accepted = 1
    except doxa.DoxaError:
        tally.refused = 1
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        tally.uncaught = 1
        tally.found(f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:80]!r}", number)
    tally.seconds = tally.longest = time.process_time() - begin
    if traced:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if tally.refused and peak > 20 * bytes_of(path) + _SMALL:
            tally.memory = 1
            tally.found("memory beyond 20 times the file", number)
    elif tally.longest > _LONGEST:
        tally.slow = 1
        tally.found(f"slow: {tally.longest:.0f} s", number)
    if form.beside:
        for end in ("", *form.beside):
            path.with_name(path.name + end).unlink(missing_ok=True)
    return tally


def _child(
    name: str, form: Format, seed: int, first: int, folder: Path, seconds: float, progress: int, result: int
) -> None:
    """A child's work: some inputs, the number of each told before it is read, and what became of them all."""
    logging.disable()
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if _LINUX else 0
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, used + _ROOM))
    total, number, begin = Tally(), first, time.process_time()
    while time.process_time() - begin < seconds:
        os.write(progress, number.to_bytes(8, "little"))
        total.add(try_one(name, form, seed, number, folder, traced=number % _TRACED == 7))
        number += 1
    total.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    os.write(result, json.dumps(total.__dict__).encode())


_LINUX = sys.platform == "linux"


def _slice(name: str, form: Format, seed: int, first: int, folder: Path, seconds: float) -> tuple[Tally, int]:
    """Let a child read inputs from ``first`` on; what became of them, and the next number."""
    progress, result = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _child(name, form, seed, first, folder, seconds, progress[1], result[1])
            status = 0
        finally:
            os._exit(status)
    os.close(progress[1])
    os.close(result[1])
    os.set_blocking(progress[0], False)
    number, since, told = first, time.monotonic(), b""
    status = None
    while status is None:
        ended, code = os.waitpid(pid, os.WNOHANG)
        status = code if ended else None
        try:
            told = os.read(progress[0], 2**16)
            since, number = time.monotonic(), int.from_bytes(told[-8:], "little") if told else number
        except BlockingIOError:
            pass
        if status is None and time.monotonic() - since > 6 * _LONGEST:  # of a busy machine's clock
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        time.sleep(0.01)
    tally = Tally()
    if status == 0:
        with os.fdopen(result[0], "rb") as file:
            tally = Tally(**json.loads(file.read()))
        os.close(progress[0])
        return tally, first + tally.tried
    os.close(progress[0])
    os.close(result[0])
    tally.tried = number - first + 1  # those before went without being counted one by one
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    tally.slow, tally.crashed = int(killed), int(not killed)
    tally.found("never ended" if killed else f"the interpreter ended with status {status}", number)
    return tally, number + 1


def fuzz(formats: dict[str, Format], seconds: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Read inputs of every format in turn, for so many seconds of processor in all."""
    tallies = {name: Tally() for name in formats}
    following = dict.fromkeys(formats, 0)
    begin, slice_ = _used(), min(max(seconds / (5 * len(formats)), _SLICES[0]), _SLICES[1])
    while _used() - begin < seconds:
        for name, form in formats.items():
            tally, following[name] = _slice(name, form, seed, following[name], folder, slice_)
            tallies[name].add(tally)
    return tallies


def _used() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def table(tallies: dict[str, Tally]) -> str:
    """A line for each format, and one for all."""
    whole = Tally()
    lines = [
        f"{'format':<14}{'tried':>10}{'refused':>10}{'accepted':>10}{'uncaught':>10}{'slow':>6}{'crash':>6}"
        f"{'memory':>8}{'longest':>9}{'peak MB':>9}"
    ]
    for name, tally in [*tallies.items(), ("all", whole)]:
        if tally is not whole:
            whole.add(tally)
        lines.append(
            f"{name:<14}{tally.tried:>10}{tally.refused:>10}{tally.accepted:>10}{tally.uncaught:>10}{tally.slow:>6}"
            f"{tally.crashed:>6}{tally.memory:>8}{tally.longest:>8.1f}s{tally.peak // 10**6:>9}"
        )
    for name, tally in tallies.items():
        for what, numbers in Counter({what: len(numbers) for what, numbers in tally.findings.items()}).most_common():
            shown = ", ".join(map(str, tally.findings[what][:3]))
            lines.append(f"{name}: {numbers} x {what} (inputs {shown} ...)")
    return "\n".join(lines)


def main() -> int:
    """Read the words of the command line, and the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor, in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="*", default=[], help="some of them; all by default")
    parser.add_argument(
        "--only", type=int, nargs="*", default=[], help="these inputs of the first format, with their tracebacks"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        formats = make_formats(folder, asked.formats)
        for number in asked.only:
            kind, form = next(iter(formats.items()))
            path, rng = drawn(kind, form, asked.seed, number, folder)
            print(f"input {number}, of {path.name}, {path.stat().st_size} bytes")
            try:
                form.use(path, rng)
                print("accepted")
            except doxa.DoxaError as error:
                print(f"refused: {error}")
            except Exception:
                traceback.print_exc()
        if asked.only:
            return 0
        tallies = fuzz(formats, asked.seconds, asked.seed, folder)
    print(table(tallies))
    return int(any(tally.failed for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
