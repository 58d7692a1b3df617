"""Try an installed doxa as a user would: import it, read the bundled data, learn from a file, run the commands.

Run it with the Python of a clean environment, from a folder that is not the checkout.  With an argument, that folder
must not be the home of the doxa that is imported.

    python -I scripts/smoke.py [CHECKOUT]
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.resources
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

EDGE_COLUMNS = ["source", "target", "probability", "mcse", "ess", "r_hat"]
VERSION = importlib.metadata.version("doxa")


def main() -> None:
    """Every check, in the order in which a failure says most."""
    check_package()
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder) / "sprinkler.csv")
        check_python(table)
        check_network_file(Path(folder) / "rain.bif")
        check_command_line(table)
    print(f"smoke: doxa {VERSION} works")


def check_package() -> None:
    """The installed package is the one imported, and says that it is typed."""
    import doxa

    home = Path(doxa.__file__).resolve().parent
    if len(sys.argv) > 1:
        checkout = Path(sys.argv[1]).resolve()
        expect(not home.is_relative_to(checkout), f"doxa was imported from the checkout, {home}")
    expect(doxa.__version__ == VERSION, f"doxa.__version__ is {doxa.__version__}, the metadata say {VERSION}")
    expect(importlib.resources.files("doxa").joinpath("py.typed").is_file(), "py.typed is not installed")


def check_data() -> None:
    """The bundled tables are there, whole."""
    import doxa

    for name, n_rows in (("reinis", 1841), ("house_votes", 435)):
        seen = doxa.datasets.load(name).n_rows
        expect(seen == n_rows, f"datasets.load({name!r}) has {seen} rows, not {n_rows}")


def write_table(path: Path) -> Path:
    """A table of 200 rows in which rain wets the grass nearly always, and the moon has nothing to do with it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["rain", "grass", "moon"])
        for row in range(200):
            rain = row % 3 == 0
            grass = rain if row % 20 else not rain
            writer.writerow(["yes" if rain else "no", "wet" if grass else "dry", "full" if row % 7 < 3 else "new"])
    return path


def check_python(table: Path) -> None:
    """`learn` on a path finds the edge that is there, in the promised columns."""
    import doxa

    edges = doxa.learn(table, seed=1).edges()
    expect(list(edges.columns) == EDGE_COLUMNS, f"edges() has the columns {list(edges.columns)}")
    check_edges([dict(zip(EDGE_COLUMNS, row, strict=True)) for row in edges.itertuples(index=False, name=None)])


def check_network_file(path: Path) -> None:
    """A network file with comments everywhere is read: regular expressions differ between Pythons."""
    import doxa

    words = "network n { }\nvariable/* a */rain { type discrete [ 2 ] { no, /* b **/ yes }; } // c\n"
    path.write_text(words + "probability ( rain ) /* d */ { table 0.75, 0.25; }\n", encoding="utf-8")
    found = doxa.infer(doxa.read_network(path))["rain"]["yes"].value
    expect(abs(found - 0.25) < 1e-9, f"the probability in a network file is 0.25, and is read as {found}")


def check_command_line(table: Path) -> None:
    """The commands end with status 0 and print, or write, what they promise."""
    printed = doxa_command("--version")
    expect(printed == f"doxa {VERSION}\n", f"`doxa --version` prints {printed!r}")

    printed = doxa_command("demo").lower()
    for word in ("source", "target", "probability"):
        expect(word in printed, f"`doxa demo` prints no column {word!r}:\n{printed}")

    output = table.with_name("edges.csv")
    doxa_command("learn", str(table), "--seed", "1", "--output", str(output))
    with output.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        expect(reader.fieldnames == EDGE_COLUMNS, f"`doxa learn` wrote the header {reader.fieldnames}")
        check_edges(list(reader))


def check_edges(edges: list[dict[str, object]]) -> None:
    """Rain and grass are joined, in one direction or the other; every probability is one."""
    joined = 0.0
    for edge in edges:
        probability = float(str(edge["probability"]))
        expect(0.0 <= probability <= 1.0, f"the probability of an edge is {probability}")
        if {edge["source"], edge["target"]} == {"rain", "grass"}:
            joined += probability
    expect(joined > 0.99, f"rain and grass are joined with probability {joined}, in\n{edges}")


def doxa_command(*arguments: str) -> str:
    """What ``doxa ARGUMENTS`` prints, run from the scripts of this environment without a terminal."""
    command = [str(Path(sysconfig.get_path("scripts")) / "doxa"), *arguments]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"},
    )
    said = f"{done.stdout}\n{done.stderr}"
    expect(done.returncode == 0, f"`doxa {' '.join(arguments)}` ended with status {done.returncode}:\n{said}")
    return done.stdout


def expect(condition: bool, otherwise: str) -> None:
    """An assertion that survives ``python -O``."""
    if not condition:
        raise SystemExit(f"smoke: {otherwise}")


if __name__ == "__main__":
    main()
