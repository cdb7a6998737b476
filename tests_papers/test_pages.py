"""What the pages on experiments and benchmarks tell people to paste runs as it stands."""

import pytest

from tests.test_pages import OF_PAPERS, paste


@pytest.mark.parametrize("name", sorted(OF_PAPERS))
def test_code_runs_as_pasted(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paste(name)
