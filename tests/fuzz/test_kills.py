"""Jobs that are killed, or have no room to write, leave whole files or none."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from partwise import MCVQ, Checkpoint, make_shapes
from partwise.report import write_report
from tests.fuzz import table_kills
from tests.fuzz.kills import JOBS, campaign, finish, prepare

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NOBODY = 65534


@contextmanager
def as_anybody():
    """Without the rights of root, whom no folder refuses."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


@pytest.mark.slow
def test_kills_leave_whole_files_or_none():
    counts = [found for _, found in campaign(16, 0)]
    assert sum(found.total() for found in counts) == 16
    assert sum(found["killed"] for found in counts) > 4


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(job, tmp_path):
    prepare(tmp_path)
    assert finish(job, tmp_path)[0] == 0  # compiles
    (tmp_path / job.out).unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    code, said = finish(job, tmp_path, limit=100)
    assert code != 0
    last = said.strip().splitlines()[-1]
    assert "cannot be written: File too large" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    if job.name != "fit with checkpoint":  # whose last line is the error of Python itself
        assert "Traceback" not in said


def test_a_folder_that_refuses_is_one_sentence():
    X = make_shapes().data[:40]
    model = MCVQ(2, 2, max_iter=2, random_state=0).fit(X)
    with tempfile.TemporaryDirectory() as name:  # in no folder of root's own
        folder = Path(name)
        folder.chmod(0o555)
        for write in (
            lambda path: model.save(path),
            lambda path: write_report(model, path),
            lambda path: model.fit(X, checkpoint=Checkpoint(path)),
        ):
            with as_anybody(), pytest.raises(PermissionError) as caught:
                write(folder / "out")
            message = f"{folder / 'out'} cannot be written: Permission denied; "
            assert message in str(caught.value)
        folder.chmod(0o755)
        assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_killed_fits_of_tables_in_files_end_the_same():
    pytest.importorskip("dask.dataframe")
    counts = [found for _, found in table_kills.campaign(2, 0, table_kills.JOBS)]
    assert sum(found.total() for found in counts) == 2 * len(table_kills.JOBS)
    assert sum(found["killed"] for found in counts) > 2
