"""Tables and options that the tests of the command line share."""

from __future__ import annotations

QUICK = ["--draws", "60", "--warmup", "10", "--thin", "5", "--seed", "1"]


def two_columns(tmp_path, text="rain,wet\n" + "no,no\nyes,yes\nno,yes\n" * 8):
    path = tmp_path / "two.csv"
    path.write_text(text)
    return path


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())
