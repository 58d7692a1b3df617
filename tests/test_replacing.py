"""Files that are replaced whole: their permissions, found without touching what all threads of a process share."""

from __future__ import annotations

import os
import stat

import pytest

from doxa.replacing import replacing, temporary_beside

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions as POSIX has them")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _umask_of_022(monkeypatch):
    before = os.umask(0o022)

    def refused(_mask):
        raise AssertionError("os.umask is the whole process's; another thread may be making a file")

    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", refused)
        yield
    os.umask(before)


@pytest.mark.usefixtures("_umask_of_022")
@pytest.mark.parametrize(("old", "new"), [(None, 0o644), (0o600, 0o600), (0o664, 0o664), (0o666, 0o666)])
def test_a_file_has_the_permissions_of_the_older_one_or_those_of_any_new_file(tmp_path, old, new):
    path = tmp_path / "page.html"
    if old is not None:
        path.write_text("old")
        path.chmod(old)
    with replacing(path) as temporary:
        assert mode_of(temporary) & ~new == 0  # never open to more than the file will be
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert mode_of(path) == new
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("_umask_of_022")
def test_a_temporary_file_is_private_and_gone_afterwards(tmp_path):
    with temporary_beside(tmp_path / "page.html") as temporary:
        assert mode_of(temporary) == 0o600
        assert temporary.suffix == ".html"
    assert list(tmp_path.iterdir()) == []
