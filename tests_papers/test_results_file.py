"""Files of results are checked before they are used."""

import json

import pytest

from partwise_papers.outcome import CLAIM_KEYS, COMPARISON_KEYS, RESULT_KEYS
from partwise_papers.results_file import _CLAIM, _COMPARISON, RESULT, new_content, read_results
from tests.fuzz.harness import run
from tests_papers.fuzz import KINDS

RESULT_OF_A_RUN = {
    "name": "x", "description": "", "source": "", "did": "", "differs": "", "why": "", "needs": [],
    "fast": True, "status": "done", "error": None, "seconds": 1.0, "cpu_seconds": 1,
    "version": "1.2", "date": "2026-11-18", "stand_in": False,
    "rows": [{"a": 1.5, "b": "text"}], "comparisons": [], "claims": [], "pictures": [],
}  # fmt: skip
COMPARISON = {
    "row": "a", "measure": "b", "better": "lower", "paper": "3", "verdict": "better",
    "ours": 2.0, "least": 1.0, "most": 3.0, "runs": 3,
}  # fmt: skip
RESULT_OF_A_RUN |= {"comparisons": [COMPARISON]}


def test_all_keys_are_checked():
    assert set(RESULT) == set(RESULT_KEYS)
    assert set(_COMPARISON) == set(COMPARISON_KEYS)
    assert set(_CLAIM) == set(CLAIM_KEYS)


def test_files_without_the_later_keys_are_read(tmp_path):
    content = new_content("experiment", []) | {"version": "0.9"}
    later = ("version", "date", "stand_in", "claims")
    before = {key: value for key, value in RESULT_OF_A_RUN.items() if key not in later}
    (tmp_path / "r.json").write_text(json.dumps(content | {"results": [before]}))
    (read,) = read_results(tmp_path / "r.json", "experiment")
    assert read == before | {"version": "0.9", "date": "", "stand_in": False, "claims": []}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 3}, "'name' that is not str"),
        ({"rows": [[1]]}, "numbers and text"),
        ({"rows": [{"a": {}}]}, "numbers and text"),
        ({"status": "odd"}, "status"),
        ({"seconds": float("nan")}, "finite"),
        ({"comparisons": [{}]}, "has no 'row'"),
        ({"comparisons": [COMPARISON | {"runs": None}]}, "without its count of runs"),
        ({"claims": [{"claim": "a"}]}, "has no 'verdict'"),
        ({"stand_in": 1}, "'stand_in' that is not bool"),
        ({"pictures": [3]}, "mapping"),
        ({"needs": [3]}, "named by text"),
    ],
)
def test_damaged_results_are_refused_in_one_sentence(tmp_path, change, said):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(new_content("experiment", []) | {"results": [RESULT_OF_A_RUN]}))
    assert read_results(path, "experiment") == [RESULT_OF_A_RUN]
    damaged = {"results": [RESULT_OF_A_RUN | change]}
    path.write_text(json.dumps(new_content("experiment", []) | damaged))
    with pytest.raises(ValueError, match=said) as caught:
        read_results(path, "experiment")
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"results": 3}', "[" * 100_000])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"is not a file of results|contains no results"):
        read_results(path, "experiment")


@pytest.mark.slow
def test_mutated_results_work_or_are_refused(tmp_path):
    tally = run(KINDS[0], 5000, 1, keep=tmp_path)
    assert tally.cases == 5000
    assert not [(outcome.number, outcome.told) for outcome in tally.bad]
