"""A fit that is interrupted anywhere and called again ends as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import count

import numpy as np
import pytest
from scipy import sparse

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    Checkpoint,
    load,
    make_faces,
    make_shapes,
)
from partwise.files import checkpoints
from partwise.files.model import ModelFileError
from partwise.fitting import checkpoint, course
from tests.fuzz.models import known_parts, whole

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FACES = make_faces(60, random_state=0)
X = FACES.data[:, ::6]
HOLED = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
LEVELS = np.rint(2 * np.clip(HOLED, 0, 1))


class Killed(BaseException):
    """Stands for the end of the process."""


def shorter(monkeypatch):
    monkeypatch.setattr(course, "ANNEALING_STEPS", 4)


def learned(model):
    """All parameters of a fitted model, by name."""
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }


def assert_equal_models(left, right, rtol=0.0):
    left, right = learned(left), learned(right)
    assert left.keys() == right.keys()
    for name in left:
        if rtol:
            np.testing.assert_allclose(left[name], right[name], rtol=rtol, atol=rtol, err_msg=name)
        else:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def interrupted(monkeypatch, fit, path, moments):
    """Fit with a process that ends after each of these numbers of notes; how many there were."""
    note = checkpoint.FitLog.note
    n_notes = 0
    for moment in moments:
        left = count(moment, -1)

        def noted(log, place, left=left):
            nonlocal n_notes
            note(log, place)
            n_notes += 1
            if next(left) == 0:
                raise Killed

        monkeypatch.setattr(checkpoint.FitLog, "note", noted)
        try:
            return fit(Checkpoint(path, every=0)), n_notes
        except Killed:
            assert os.path.exists(path)
    monkeypatch.setattr(checkpoint.FitLog, "note", note)
    return fit(Checkpoint(path, every=0)), n_notes


CASES = {
    "starts": (lambda: MCVQ(2, 3, n_init=2, max_iter=5, random_state=0), (X,)),
    "labels": (lambda: MCVQ(2, 3, max_iter=4, random_state=0), (HOLED, FACES.target)),
    "classes": (lambda: MCVQ(2, 3, n_classes=2, max_iter=3, random_state=0), (X,)),
    "factorised": (lambda: MCVQ(2, 3, gating="factorised", max_iter=4, random_state=0), (X,)),
    "gibbs": (
        lambda: MCVQ(2, 3, inference="gibbs", max_iter=6, random_state=0),
        (X, FACES.target),
    ),
    "sparse": (
        lambda: MCVQ(2, 3, likelihood="categorical", max_iter=5, random_state=0),
        (sparse.csr_array(np.nan_to_num(LEVELS)),),
    ),
    "sizes": (lambda: MCVQ("auto", "auto", n_init=2, max_iter=5, random_state=0), (X[:40, ::9],)),
    "blocks": (
        lambda: MCVQ(2, 3, max_iter=5, random_state=0),
        ([HOLED[:25], HOLED[25:]], FACES.target),
    ),
    "factors": (lambda: MCFA(2, 2, max_iter=5, random_state=np.random.default_rng(3)), (HOLED,)),
    "factors with classes": (lambda: MCFA(2, 2, max_iter=3, random_state=0), (X, FACES.target)),
    "levels": (lambda: MCFA(2, 1, likelihood="ordinal", max_iter=4, random_state=0), (LEVELS,)),
    "CVQ": (lambda: CVQ(2, 3, n_init=2, max_iter=4, random_state=0), (X,)),
    "GVQ": (lambda: GVQ(3, n_init=2, random_state=0), (X,)),
    "GVQ of values": (
        lambda: GVQ(2, n_values=3, random_state=np.random.RandomState(0)),
        (HOLED,),
    ),
    "PCA": (lambda: BayesianPCA(4, max_iter=20, random_state=0), (HOLED,)),
    "aspects": (lambda: AspectModel(2, max_iter=15, random_state=0), (LEVELS,)),
}


@pytest.mark.parametrize(
    "case",
    # A search for sizes is also tested by `test_a_search_for_sizes_resumes`.
    [pytest.param(case, marks=pytest.mark.slow) if case == "sizes" else case for case in CASES],
)
def test_interrupted_fit_ends_the_same(case, tmp_path, monkeypatch):
    make, data = CASES[case]
    shorter(monkeypatch)
    path = tmp_path / "fit.checkpoint"

    def fit(given):
        return make().fit(*data, checkpoint=given)

    straight = fit(None)
    _, n_notes = interrupted(monkeypatch, fit, path, [10**6])
    moments = sorted(random.Random(0).sample(range(n_notes), min(3, n_notes)))
    steps = np.diff([-1, *moments]) - 1
    broken, _ = interrupted(monkeypatch, fit, path, steps.tolist())
    assert_equal_models(straight, broken)
    assert os.listdir(tmp_path) == []


def test_a_fit_without_seed_keeps_the_one_it_drew(tmp_path, monkeypatch):
    shorter(monkeypatch)
    path, seeds = tmp_path / "fit.checkpoint", count(5)
    straight = MCVQ(2, 3, max_iter=5, random_state=5).fit(X)
    monkeypatch.setattr(
        checkpoint, "as_generator", lambda state: np.random.default_rng(next(seeds))
    )
    broken, _ = interrupted(
        monkeypatch, lambda given: MCVQ(2, 3, max_iter=5).fit(X, checkpoint=given), path, [2, 3]
    )
    assert_equal_models(straight, broken)


# --- what is refused ---


@pytest.fixture
def left(tmp_path, monkeypatch):
    """The checkpoint of a fit that was killed."""
    path = tmp_path / "fit.checkpoint"

    def killed(log, place):
        log_note(log, place)
        raise Killed

    log_note = checkpoint.FitLog.note
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.FitLog, "note", killed)
        with pytest.raises(Killed):
            MCVQ(2, 3, random_state=0).fit(X, checkpoint=Checkpoint(path, every=0))
    return path


@pytest.mark.parametrize(
    ("model", "data", "reason"),
    [
        (MCVQ(2, 4, random_state=0), X, "n_states=3, not 4"),
        (MCVQ(2, 3, random_state=1), X, "random_state=0, not 1"),
        (CVQ(2, 3, random_state=0), X, "model='MCVQ', not 'CVQ'"),
        (MCVQ(2, 3, random_state=0), X[:-1], r"shape=\[60, 171\], not \[59, 171\]"),
        (MCVQ(2, 3, random_state=0), X + np.eye(*X.shape), "other data"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(left, model, data, reason):
    before = left.read_bytes()
    with pytest.raises(ModelFileError, match=f"another fit \\({reason}"):
        model.fit(data, checkpoint=left)
    assert left.read_bytes() == before


def test_lists_of_arrays_that_a_damaged_file_has_are_refused():
    kept, now = ({"n_states": [np.full(2, x), 1]} for x in (0.0, 1.0))
    with pytest.raises(ModelFileError, match="another fit"):
        checkpoint._refuse_other("file", kept, now)


def test_a_checkpoint_that_was_changed_is_refused_and_kept(left):
    """The checksum is right, but the fit did not write it."""
    header, arrays = known_parts(left.read_bytes())
    for change in (
        lambda: (header | {"seal": "0" * 64}, arrays),
        lambda: ({k: v for k, v in header.items() if k != "seal"}, arrays),
        lambda: (header, {name: 2 * array for name, array in arrays.items()}),
        lambda: (json.loads(json.dumps(header).replace('"stage": 0', '"stage": 1')), arrays),
    ):
        left.write_bytes(content := whole(*change()))
        with pytest.raises(ModelFileError, match="was changed since the fit wrote it"):
            MCVQ(2, 3, random_state=0).fit(X, checkpoint=left)
        assert left.read_bytes() == content
    left.write_bytes(whole(header, arrays))
    assert_equal_models(
        MCVQ(2, 3, random_state=0).fit(X, checkpoint=left), MCVQ(2, 3, random_state=0).fit(X)
    )


def test_workers_and_verbosity_may_change(left):
    model = MCVQ(2, 3, random_state=0, n_jobs=2, max_time=1000).fit(X, checkpoint=left)
    assert_equal_models(model, MCVQ(2, 3, random_state=0).fit(X))
    assert not left.exists()


def test_other_files_are_refused_and_kept(left, tmp_path):
    content = left.read_bytes()
    left.write_bytes(content[:-1])
    with pytest.raises(ModelFileError, match="damaged"):
        MCVQ(2, 3, random_state=0).fit(X, checkpoint=left)
    assert left.read_bytes() == content[:-1]
    left.write_bytes(content)
    with pytest.raises(ModelFileError, match="checkpoint of an unfinished fit"):
        load(left)
    model = tmp_path / "model.safetensors"
    MCVQ(2, 3, max_iter=2, random_state=0).fit(X).save(model)
    with pytest.raises(ModelFileError, match="contains a MCVQ, not a checkpoint"):
        MCVQ(2, 3, random_state=0).fit(X, checkpoint=model)
    assert isinstance(load(model), MCVQ)


def test_a_checkpoint_of_another_version_is_refused(left, monkeypatch):
    monkeypatch.setattr(checkpoints, "__version__", "99.0")
    with pytest.raises(ModelFileError, match="checkpoint of partwise"):
        MCVQ(2, 3, random_state=0).fit(X, checkpoint=left)


def test_an_error_keeps_the_checkpoint(left, monkeypatch):
    def fails(*_):
        raise OSError("block 3 cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr("partwise.models.mcvq.MCVQ.expect", fails)
        with pytest.raises(OSError, match="block 3"):
            MCVQ(2, 3, random_state=0).fit(X, checkpoint=left)
    assert_equal_models(
        MCVQ(2, 3, random_state=0).fit(X, checkpoint=left), MCVQ(2, 3, random_state=0).fit(X)
    )


def test_no_place_to_write_is_known_before_the_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        MCVQ(2, 3).fit(X, checkpoint=tmp_path / "nowhere" / "fit.checkpoint")
    with pytest.raises(ValueError, match="every=-1"):
        Checkpoint(tmp_path / "fit.checkpoint", every=-1)


# --- processes that are killed ---

SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from partwise import MCVQ, Checkpoint, make_shapes
model = MCVQ(3, 9, n_init=2, max_iter=15, tol=0.0, random_state=0)
print("fitting", flush=True)
model.fit(make_shapes().data, checkpoint=Checkpoint(sys.argv[2], every=0))
model.save(sys.argv[1])
"""


def run(*arguments):
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(process):
    """How a process ended."""
    process.communicate()
    return process.returncode


def kill_again_and_again(folder, n_kills, rng):
    """Kill a fit at random moments, then let it end; kills, and those that broke a write off."""
    path, result = folder / "fit.checkpoint", folder / "model.safetensors"
    temporary = checkpoints.temporary_name(path)
    n_killed = n_writing = 0
    for _ in range(n_kills):
        process = run(result, path)
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.5))
        if rng.random() < 0.5:  # in the middle of a write
            while process.poll() is None and not temporary.exists():
                pass
        process.send_signal(signal.SIGKILL)
        if end(process) == 0:
            break
        n_killed += 1
        n_writing += temporary.exists()
        assert not result.exists()
        if path.exists():
            checkpoints.load_checkpoint(path)  # whole at any moment
    assert end(run(result, path)) == 0
    assert not path.exists()
    assert not temporary.exists()
    straight = MCVQ(3, 9, n_init=2, max_iter=15, tol=0.0, random_state=0)
    straight.fit(make_shapes().data).save(folder / "straight.safetensors")
    # In another process, where arrays lie otherwise, matrix products may round otherwise.
    assert_equal_models(load(result), load(folder / "straight.safetensors"), rtol=1e-9)
    return n_killed, n_writing


@pytest.mark.slow
def test_killed_processes_go_on(tmp_path):
    assert kill_again_and_again(tmp_path, 2, random.Random(0))[0] > 0


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    n_killed = n_writing = 0
    for i in range(10):
        folder = tmp_path / str(i)
        folder.mkdir()
        killed, writing = kill_again_and_again(folder, 4, random.Random(i))
        n_killed, n_writing = n_killed + killed, n_writing + writing
        if n_killed >= 20:
            break
    assert n_killed >= 20
    assert n_writing > 0


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore:Parts are uncertain")
def test_a_search_for_sizes_resumes(monkeypatch, tmp_path):
    path = tmp_path / "sizes.checkpoint"
    rows = HOLED[:, ::12]

    def fit():
        where = Checkpoint(path, every=0)
        return MCVQ("auto", "auto", random_state=3, max_iter=10).fit(rows, checkpoint=where)

    whole_fit = fit()
    keep, n_starts = checkpoint.FitLog.keep, 0
    for moment in (0, 1, 0, 0, 2):
        left = count(moment, -1)

        def kept(log, *arguments, left=left):
            keep(log, *arguments)
            if next(left) == 0:
                raise Killed

        monkeypatch.setattr(checkpoint.FitLog, "keep", kept)
        try:
            fit()
        except Killed:
            n_starts += 1
    monkeypatch.setattr(checkpoint.FitLog, "keep", keep)
    assert n_starts > 2
    assert_equal_models(fit(), whole_fit)
    assert not path.exists()
