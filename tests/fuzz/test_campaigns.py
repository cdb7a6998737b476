"""A bounded campaign of every kind; ``python -m tests.fuzz`` runs longer ones."""

import pytest

from tests.fuzz.harness import find_kinds, run

CASES = {"model files": 2000, "calls": 700}
LONGEST = 240.0  # seconds for each kind


@pytest.mark.slow
@pytest.mark.parametrize("name", find_kinds())
def test_mutated_files_work_or_are_refused(name, tmp_path):
    tally = run(find_kinds()[name], CASES.get(name, 500), 1, seconds=LONGEST, keep=tmp_path)
    assert tally.cases > 0
    assert not [(outcome.number, outcome.told) for outcome in tally.bad]
