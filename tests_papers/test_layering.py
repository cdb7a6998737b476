"""The papers' package stands on the public names of the library."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import partwise_papers
from tests.test_layering import imports, is_private, node_violations

SOURCE = Path(partwise_papers.__file__).parent

PUBLIC = frozenset(
    [
        "partwise",
        "partwise.association",
        "partwise.compression",
        "partwise.datasets",
        "partwise.evaluation",
        "partwise.metrics",
        "partwise.plot",
        "partwise.report",
    ]
)

# What these modules may import besides: pieces of the library, and why.
BELOW = {
    # A sweep alone, which no estimator offers.
    "bench/_sweep.py": {"contracts", "data", "likelihoods", "models", "runners", "starts"},
    # Commands print as the library's own do, and write files that a stop leaves whole.
    "commands.py": {"cli", "files"},
    "results_file.py": {"files"},
}
TUPLES = frozenset(["_asdict", "_replace"])  # public, underscore or not


def import_violation(path, found):
    """What is wrong with an import, if anything."""
    words = found.words
    if words[0] == "matplotlib":
        return "matplotlib; draw with a display of partwise.plot"
    if words[0] == "partwise_papers" or words == ["partwise", "__version__"]:
        return None
    if any(map(is_private, words)):
        return f"private name {'.'.join(words)}"
    if words[0] != "partwise" or (len(words) > 1 and words[1] in BELOW.get(path, ())):
        return None
    if found.module not in PUBLIC or found.name not in import_module(found.module).__all__:
        return f"{'.'.join(words)} is not public"
    return None


def violations(path, source):
    """What a module breaks; `path` is relative to the package."""
    tree = ast.parse(source)
    found = [(one.line, import_violation(path, one)) for one in imports(tree, "partwise_papers")]
    for node in ast.walk(tree):
        found += [(node.lineno, text) for text in node_violations("papers", node)]
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in TUPLES:
            owner = ast.unparse(node.value)
            if owner != "self":
                found.append((node.lineno, f"private name {owner}.{node.attr}"))
    return [f"{path}:{line}: {text}" for line, text in found if text]


def test_only_public_names_are_used():
    found = [
        text
        for path in sorted(SOURCE.rglob("*.py"))
        for text in violations(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("from partwise.estimators.mcvq import MCVQ", "not public"),
        ("from partwise import files", "not public"),
        ("import partwise.models.mcvq", "not public"),
        ("from partwise.datasets import loaders", "not public"),
        ("def f():\n    from partwise.data import BlockSource", "not public"),
        ("from partwise.estimators._tables import X", "private name"),
        ("from sklearn.utils import _safe_indexing", "private name"),
        ("model._theta", "private name model._theta"),
        ("def f():\n    import matplotlib", "matplotlib"),
        ("print(1)", "print outside cli"),
    ],
)
def test_each_rule_can_fail(source, complaint):
    found = violations("bench/fit.py", source)
    assert complaint in "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("bench/fit.py", "from partwise import MCVQ, __version__\nMCVQ().fit(X).parts_"),
        ("bench/fit.py", "from partwise.plot import StatesDisplay"),
        ("bench/fit.py", "from partwise_papers.bench import _timing\nrow._replace(a=self._a)"),
        ("bench/_sweep.py", "from partwise.models.mcvq import MCVQ"),
        ("commands.py", "from partwise.cli.console import say"),
    ],
)
def test_what_the_rules_allow(path, source):
    assert violations(path, source) == []
