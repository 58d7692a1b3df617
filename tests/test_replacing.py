"""Files that are replaced whole: their permissions, and the umask, which belongs to all threads."""

from __future__ import annotations

import os

import pytest

from doxa.replacing import replacing, temporary_beside


@pytest.fixture(autouse=True)
def umask_untouched(monkeypatch):
    def touched(_):
        raise AssertionError("the umask was changed, for every thread of the process")

    monkeypatch.setattr(os, "umask", touched)


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path):
    (tmp_path / "usual.txt").write_text("usual")
    with replacing(tmp_path / "new.txt") as temporary:
        temporary.write_text("new")
        assert mode_of(temporary) == mode_of(tmp_path / "usual.txt")
    assert (tmp_path / "new.txt").read_text() == "new"
    assert mode_of(tmp_path / "new.txt") == mode_of(tmp_path / "usual.txt")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_replaced_file_keeps_its_permissions_and_is_never_wider(tmp_path, mode):
    path = tmp_path / "kept.txt"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert mode_of(temporary) & ~mode == 0
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert mode_of(path) == mode


def test_what_goes_wrong_leaves_the_older_file_and_no_other(tmp_path):
    path = tmp_path / "kept.txt"
    path.write_text("old")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [one.name for one in tmp_path.iterdir()] == ["kept.txt"]
    assert path.read_text() == "old"


def test_a_temporary_file_is_private_and_goes(tmp_path):
    with temporary_beside(tmp_path / "run.doxa") as temporary:
        assert mode_of(temporary) == 0o600
        assert temporary.suffix == ".doxa"
    assert not list(tmp_path.iterdir())
