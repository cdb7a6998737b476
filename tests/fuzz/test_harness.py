"""The harness sees what it is there for, and every kind does a few cases in this process."""

import pytest

from tests.fuzz._pretended import KINDS
from tests.fuzz.harness import BAD, again, attempt, find_kinds, make_seeds, run


@pytest.mark.slow
def test_workers_survive_every_kind_of_bad_case(tmp_path):
    tally = run(KINDS[0], 12, workers=1, keep=tmp_path)
    assert tally.cases == 12
    assert all(tally.counts[verdict] for verdict in ("worked", "error", "crash", "memory"))
    for outcome in tally.bad:
        (kept,) = tmp_path.glob(f"pretended-{outcome.number}-{outcome.verdict}")
        expected = {"crash": b"crash", "memory": b"memory"}.get(outcome.verdict)
        assert kept.read_bytes() in ((b"error", b"foreign") if expected is None else (expected,))
        if outcome.verdict == "error":
            assert again(KINDS[0], 0, outcome.number, tmp_path / "again").verdict == "error"


@pytest.mark.slow
def test_a_case_that_hangs_is_ended():
    tally = run(KINDS[1], 1, workers=1)
    assert tally.counts == {"hang": 1}
    assert "_hang" in tally.bad[0].told  # where it hangs


def test_outcomes_of_one_process(tmp_path):
    for content, verdict in (("worked", "worked"), ("error", "error"), ("foreign", "error")):
        (tmp_path / "case").write_text(content)
        assert attempt(KINDS[0], tmp_path / "case").verdict == verdict


# Kinds whose seeds are fits.
FITTED = ("new model files", "requests")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in FITTED)) for name in find_kinds()],
)
def test_seed_files_work(name, tmp_path):
    kind = find_kinds()[name]
    make_seeds(kind, tmp_path)
    outcomes = [attempt(kind, path) for path in sorted(tmp_path.iterdir())]
    assert not [outcome.told for outcome in outcomes if outcome.verdict in BAD]
    assert "worked" in [outcome.verdict for outcome in outcomes]
