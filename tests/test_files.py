"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hardwood.files import write_whole


def test_what_is_written_arrives(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    seen = []

    def write(temporary: Path) -> None:
        seen.append(temporary)
        temporary.write_text("new")
        assert not path.exists()

    write_whole(str(path), write)
    assert path.read_text() == "new"
    # Beside the file, so that putting it in place is one step; with its suffix, by which writers choose formats.
    assert seen[0].parent == tmp_path
    assert seen[0].suffix == ".csv"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [OSError, ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_everything_as_it_was(tmp_path: Path, failure: type[BaseException], exists: bool) -> None:
    path = tmp_path / "model.json"
    if exists:
        path.write_text("old")

    def write(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise failure

    with pytest.raises(failure):
        write_whole(path, write)
    assert [file.read_text() for file in tmp_path.iterdir()] == (["old"] if exists else [])


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_is_that_of_an_ordinary_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "model.json", lambda temporary: temporary.write_text("{}"))
        assert os.umask(umask) == umask  # looking at the umask must not change it
    finally:
        os.umask(before)
    mode = stat.S_IMODE((tmp_path / "model.json").stat().st_mode)
    assert mode == 0o666 & ~umask


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "model.json").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_whole(tmp_path / "model.json", lambda temporary: temporary.write_text("{}"))
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "model.json"), None)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    """The error once named a temporary file that nobody had asked for."""
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "nowhere" / "model.json", lambda temporary: temporary.write_text("{}"))
    assert caught.value.filename == str(tmp_path / "nowhere" / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_only_the_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole("model.json", lambda temporary: temporary.write_text("{}"))
    assert (tmp_path / "model.json").read_text() == "{}"
