"""Files from strangers: refused in words, never executed, never believed about sizes, never a crash."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import test_store_toy as toy

from doxa.estimates.store import RunFileError, create_run, open_reader, open_writer
from doxa.estimates.store.lease import Lease
from doxa.estimates.store.reader import block_key, checksum, state_key
from support.run_files import importing


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.doxa"
    toy.run(path)
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copyfile(whole, tmp_path / "run.doxa"))


def attempt(path):
    """Open, verify and read; the words of the refusal, or None."""
    words = None
    try:
        toy.contents(path)
    except RunFileError as error:
        words = str(error)
    return words


def refuse(path, message):
    for opening in (open_reader, open_writer):
        with pytest.raises(RunFileError, match=message), opening(path) as run:
            run.verify()
    left = {item.name for item in path.parent.iterdir()}
    assert not left.intersection({path.name + end for end in ("-wal", "-shm", ".lock")})


def edit(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
    connection.close()


def test_a_file_that_is_not_there(tmp_path):
    refuse(tmp_path / "run.doxa", r"there is no run file '.*run\.doxa'")


def test_an_empty_file(tmp_path):
    path = tmp_path / "run.doxa"
    path.touch()
    refuse(path, r"'.*run\.doxa' is empty, so there is no run in it; delete it and start the run again")


def test_folders_pipes_and_links_in_a_circle(tmp_path):
    refuse(tmp_path, "is a folder; give the name of a run file in it")
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "is a device or a pipe, not a file")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(RunFileError, match="circle"):
        open_reader(tmp_path / "circle")


def test_a_link_to_a_run_is_that_run(whole, tmp_path):
    (tmp_path / "link.doxa").symlink_to(whole)
    assert toy.contents(tmp_path / "link.doxa") == toy.contents(whole)


def test_text_and_random_bytes(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "run.doxa"
    for size in (1, 15, 16, 99, 100, 511, 512, 513, 4096, 50_000):
        for data in (rng.bytes(size), b"a,b\n1,2\n" * (size // 8 + 1), b"SQLite format 3\0" + rng.bytes(size)):
            path.write_bytes(data)
            assert "is not a run of doxa" in attempt(path) or "is damaged" in attempt(path)


def test_truncated_files(whole, tmp_path):
    data, path = whole.read_bytes(), tmp_path / "run.doxa"
    lengths = {*range(0, len(data), 1000), *range(0, 300, 20), len(data) - 1, len(data) - 4096}
    for length in sorted(lengths):
        path.write_bytes(data[:length])
        words = attempt(path)
        assert words is not None, length
        assert "empty" in words or "is damaged" in words or "is not a run" in words


@pytest.mark.parametrize("n_flips", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_flipped_bytes_are_refused_or_found_or_harmless(whole, tmp_path, n_flips):
    data, expected, path = whole.read_bytes(), toy.contents(whole), tmp_path / "run.doxa"
    rng, noticed = np.random.default_rng(2), 0
    places = [*range(0, 100, 3), *rng.integers(0, len(data), n_flips).tolist()]
    for place in places:
        broken = bytearray(data)
        broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        words = attempt(path)
        noticed += words is not None
        assert words is not None or toy.contents(path) == expected, place
    assert noticed > len(places) / 3


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "run.doxa"
    edit(path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
    refuse(path, r"is not a run of doxa: it is an SQLite database of another program")
    edit(path, "PRAGMA application_id = 1685026913")
    refuse(path, r"is a run in format 0; this doxa reads format 1: it was never released")
    edit(path, "PRAGMA user_version = 1")
    refuse(path, r"is not a run of doxa: its tables are not those of a run")
    edit(path, "PRAGMA user_version = 2")
    refuse(path, r"is a run in format 2; this doxa reads format 1: update doxa to read it")


def test_a_database_in_write_ahead_mode(copy):
    edit(copy, "PRAGMA journal_mode = WAL")
    refuse(copy, "it is an SQLite database with a write-ahead log")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON rounds BEGIN DELETE FROM blocks; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE another (x)",
        "CREATE INDEX i ON blocks (chain)",
        "CREATE VIRTUAL TABLE f USING fts4(x)",
        "ALTER TABLE blocks ADD COLUMN more TEXT",
        "DROP TABLE states",
        "ANALYZE",
    ],
)
def test_anything_beside_the_tables_of_a_run(copy, statement):
    edit(copy, statement)
    refuse(copy, "its tables are not those of a run, or there is something beside them")


def test_a_view_in_place_of_a_table_is_never_read(copy):
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, x, x FROM c"
    edit(copy, "DROP TABLE header", f"CREATE VIEW header (id, body, sha256) AS {endless}")
    refuse(copy, "its tables are not those of a run")


def forge(path, **values):
    """Change the first block and give it a checksum that is right."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    row = dict(connection.execute("SELECT * FROM blocks WHERE id = 1").fetchone()) | values
    described = (row["dtype"], row["shape"], row["codec"])
    row["crc32"] = checksum(block_key(row["round"], row["chain"], row["name"], row["first"], described), row["data"])
    connection.execute(f"UPDATE blocks SET {', '.join(f'{name} = :{name}' for name in row)} WHERE id = 1", row)
    connection.close()


BOMB = zlib.compress(bytes(100_000), 9)  # a hundred times what the shape leaves room for
FORGED = {
    "claims to take more than": {"shape": f"[40, {2**38}]"},
    "is too large": {"shape": f"[40, {2**41}]"},
    "the shape of an array does not agree with the number of its bytes": {"shape": "[40, 4]"},
    "has no readable shape": {"shape": "[40, -3]"},
    "a shape is not JSON": {"shape": "[" * 200},
    "has no readable shape ": {"shape": "[40, true]"},
    "has no readable shape  ": {"shape": "[" + "1," * 9 + "1]"},
    "has a dtype that is not kept": {"dtype": "|O"},
    "has a dtype that is not kept ": {"dtype": "<U9"},
    "compressed in an unknown way": {"codec": "lzma"},
    "does not agree with the number of its bytes ": {"codec": "deflate", "data": BOMB[:9], "shape": "[40, 20000]"},
    "decompresses to another length": {"codec": "deflate", "data": BOMB, "shape": "[40, 3]"},
    "cannot be decompressed": {"codec": "deflate", "data": b"x" * 500, "shape": "[40, 3]"},
    "changes its shape": {"shape": "[40, 1, 3]"},
    "lies outside its round": {"round": 5},
    "lies outside its round ": {"chain": 2},
    "do not join up": {"shape": "[39, 3]", "data": bytes(39 * 24), "codec": "raw"},
    "something else than a whole number": {"first": "zero"},
    "something else than a whole number ": {"chain": -1},
}


@pytest.mark.parametrize("message", FORGED)
def test_forged_blocks_are_refused_before_memory_is_taken(copy, message):
    forge(copy, **FORGED[message])
    tracemalloc.start()
    try:
        refuse(copy, f"is damaged: .*{message.strip()}.*; use a copy, or run it again")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4e6, f"{peak / 1e6:.1f} MB were taken"


def test_draws_that_are_larger_than_allowed(whole):
    with open_reader(whole) as reader:
        size = reader.n_bytes
    open_reader(whole, max_bytes=size).close()
    with pytest.raises(RunFileError, match=f"its draws take more than {size - 1} bytes; raise max_bytes if you trust"):
        open_reader(whole, max_bytes=size - 1)
    with pytest.raises(RunFileError, match=r"has \d+ bytes and at most 1000 are opened; raise max_bytes"):
        open_writer(whole, max_bytes=1000)


DAMAGE = {
    "draws from 0 of chain 0 fail their checksum": "UPDATE blocks SET crc32 = crc32 + 1 WHERE id = 1",
    "draws from 0 of chain 0 fail their checksum ": "UPDATE blocks SET data = zeroblob(length(data)) WHERE id = 1",
    "round 2 fails its checksum": "UPDATE rounds SET n_steps = n_steps + 1 WHERE round = 2",
    "its rounds are not consecutive": "DELETE FROM rounds WHERE round = 2",
    "its rounds are not consecutive ": "DELETE FROM rounds WHERE round = 1",
    "draws are missing": "DELETE FROM blocks WHERE round = (SELECT max(round) FROM rounds)",
    "lies outside its round": "DELETE FROM rounds WHERE round = (SELECT max(round) FROM rounds)",
    "chain states are missing": "DELETE FROM chains WHERE chain = 1",
    "a chain state has a field that cannot be read": "DELETE FROM states",
    "a chain state fails its checksum": "UPDATE states SET name = 'other'",
    "a chain state fails its checksum ": "UPDATE chains SET body = replace(body, '80', '81')",
    "a chain state belongs to another round": "UPDATE chains SET round = 1",
    "it has no header": "DELETE FROM header",
    "its header fails its checksum": "UPDATE header SET body = replace(body, 'toy', 'tot')",
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damage_that_sqlite_cannot_see(copy, message):
    edit(copy, DAMAGE[message])
    refuse(copy, f"'.*run.doxa' is damaged: .*{message.strip()}.*; use a copy, or run it again")


HEADERS = ["{}", "[]", "null", "[" * 100_000, '{"kind": NaN}', toy.HEADER.to_json().replace("2", '"2"')]


@pytest.mark.parametrize("body", HEADERS, ids=range(len(HEADERS)))
def test_forged_headers(copy, body):
    import hashlib

    edit(copy, ("UPDATE header SET body = ?, sha256 = ?", (body, hashlib.sha256(body.encode()).hexdigest())))
    refuse(copy, "is damaged")


@pytest.mark.parametrize(
    "change",
    [
        {"rng": {"bit_generator": "MT19937"}},
        {"rng": {"bit_generator": "PCG64", "state": {"state": 2**128, "inc": 1}, "has_uint32": 0, "uinteger": 0}},
        {"rng": {"bit_generator": "PCG64", "state": {"state": 1.5, "inc": 1}, "has_uint32": 0, "uinteger": 0}},
        {"rng": None},
        {"info": {"accepted": 1e9}},
        {"info": [1]},
        {"state": [["x", "float", "inf+"]]},
        {"state": [["x", "code", "import os"]]},
        {"state": "x"},
    ],
)
def test_forged_states(copy, change):
    connection = sqlite3.connect(copy, isolation_level=None)
    ((number, body),) = connection.execute("SELECT round, body FROM chains WHERE chain = 0")
    body = json.dumps(json.loads(body) | change)
    crc = checksum(state_key(number, 0, "", ("", "", "")), body.encode())
    connection.execute("UPDATE chains SET body = ?, crc32 = ? WHERE chain = 0", (body, crc))
    connection.close()
    refuse(copy, "is damaged: ")


def test_text_that_is_no_text(copy):
    edit(copy, "UPDATE blocks SET name = CAST(x'ff80' AS TEXT) WHERE id = 1")
    refuse(copy, "is damaged")


def test_a_journal_that_names_another_file_is_not_played_back(copy, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    name = str(victim).encode()
    tail = (0x10000).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    magic = bytes.fromhex("d9d505f920a163d7")
    copy.with_name("run.doxa-journal").write_bytes((magic + bytes(504)) + tail + magic)
    for opening in (open_reader, open_writer):
        with pytest.raises(RunFileError, match="refers to another file; a run writes no such journal"):
            opening(copy)
    assert victim.exists()
    copy.with_name("run.doxa-journal").unlink()
    copy.with_name("run.doxa-journal").symlink_to(victim)
    with pytest.raises(RunFileError, match="is not a plain file; a run writes no such journal"):
        open_reader(copy)


def test_a_sidecar_that_is_a_link_is_not_followed(copy, tmp_path):
    (tmp_path / "victim").write_text("keep me")
    (tmp_path / "run.doxa.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(RunFileError, match=r"its lock 'run\.doxa\.lock' cannot be opened"):
        open_writer(copy)
    assert (tmp_path / "victim").read_text() == "keep me"


def test_a_lease_is_not_fooled_by_a_sidecar_that_was_replaced(tmp_path):
    lease = Lease(tmp_path / "run.doxa")
    lease.sidecar.unlink()
    other = Lease(tmp_path / "run.doxa")
    other.release()
    lease.release()
    lease.release()
    assert not lease.sidecar.exists()


PERMISSIONS = """
import os, sys
from test_store_toy import HEADER
from doxa.estimates.store import RunFileError, create_run, open_reader, open_writer
if os.geteuid() == 0:  # the superuser may do anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for action in (lambda: open_reader(sys.argv[1]), lambda: open_writer(sys.argv[2]), lambda: open_reader(sys.argv[2]),
               lambda: open_writer(sys.argv[3]), lambda: create_run(sys.argv[3] + "2", HEADER)):
    try:
        action().close()
        print("fine")
    except RunFileError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_permissions(whole, tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    paths = [Path(shutil.copyfile(whole, folder / name)) for name in ("secret.doxa", "fixed.doxa")]
    (folder / "closed").mkdir()
    paths.append(Path(shutil.copyfile(whole, folder / "closed" / "run.doxa")))
    for path, mode in zip((*paths, folder / "closed"), (0o000, 0o444, 0o666, 0o555), strict=True):
        path.chmod(mode)
    environment = importing(Path(toy.__file__).parent)
    command = [sys.executable, "-c", PERMISSIONS, *map(str, paths)]
    if os.geteuid() == 0:
        for part in (folder, *folder.parents):
            if part.stat().st_uid == 0 and part.stat().st_mode & 0o005 != 0o005 and "pytest" in str(part):
                part.chmod(0o755)
        folder.chmod(0o777)
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    lines = output.stdout.splitlines()
    assert "secret.doxa' cannot be opened: permission denied" in lines[0]
    assert "fixed.doxa' is read-only; make it writable to continue the run, or copy it" in lines[1]
    assert lines[2] == "fine"
    assert "its lock 'run.doxa.lock' cannot be opened (Permission denied); the folder must be writable" in lines[3]
    assert "run.doxa2' cannot be written: its lock" in lines[4]
    (folder / "closed").chmod(0o755)


def test_an_interrupted_write_is_undone_by_the_next_reader(whole, tmp_path):
    path = tmp_path / "run.doxa"
    toy.run(path, until=3)
    before = toy.contents(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 2")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE blocks SET data = zeroblob(length(data))")
    for suffix in ("", "-journal"):  # the file as it is when the process dies now
        shutil.copyfile(f"{path}{suffix}", f"{tmp_path}/killed.doxa{suffix}")
    connection.close()
    assert toy.contents(tmp_path / "killed.doxa") == before
    assert not (tmp_path / "killed.doxa-journal").exists()
    toy.run(tmp_path / "killed.doxa")
    assert toy.contents(tmp_path / "killed.doxa") == toy.contents(whole)


def test_creation_that_was_killed_leaves_nothing_in_the_way(tmp_path):
    path = tmp_path / "run.doxa"
    (tmp_path / ".run.doxa.new").write_bytes(b"half")
    (tmp_path / ".run.doxa.new-journal").write_bytes(b"half")
    create_run(path, toy.HEADER).close()
    assert [item.name for item in tmp_path.iterdir()] == ["run.doxa"]
