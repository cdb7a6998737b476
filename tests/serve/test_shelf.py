"""A replaced file is loaded again, a damaged one never serves."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from partwise.serve.shelf import Shelf


def load(path):
    text = path.read_text()
    if text.startswith("bad"):
        raise ValueError(f"{path.name} is damaged")
    return text


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "one").write_text("first")
    return Shelf({"one": tmp_path / "one"}, load)


def replace(path, text):
    """As `save` does: write beside, then rename."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


def refresh(shelf):
    with ThreadPoolExecutor(1) as executor:
        asyncio.run(shelf.refresh(executor))


def test_a_replaced_file_is_loaded(shelf, tmp_path):
    assert (list(shelf), shelf["one"]) == (["one"], "first")
    replace(tmp_path / "one", "second")
    refresh(shelf)
    assert shelf["one"] == "second"


def test_a_damaged_file_is_not_served_and_a_mended_one_is(shelf, tmp_path, caplog):
    replace(tmp_path / "one", "bad")
    refresh(shelf)
    refresh(shelf)
    assert shelf["one"] == "first"
    assert shelf.problems == {"one": "one is damaged"}
    assert len(caplog.records) == 1  # said once
    replace(tmp_path / "one", "third")
    refresh(shelf)
    assert (shelf["one"], shelf.problems) == ("third", {})


def test_a_file_that_is_gone_for_a_moment_leaves_its_model(shelf, tmp_path):
    (tmp_path / "one").unlink()
    refresh(shelf)
    assert shelf["one"] == "first"
    assert "one" in shelf.problems
    (tmp_path / "one").write_text("back")
    refresh(shelf)
    assert (shelf["one"], shelf.problems) == ("back", {})


def test_bad_files_are_refused_at_the_start(tmp_path):
    (tmp_path / "one").write_text("bad")
    with pytest.raises(ValueError, match="one is damaged"):
        Shelf({"one": tmp_path / "one"}, load)
    with pytest.raises(FileNotFoundError):
        Shelf({"two": tmp_path / "two"}, load)
