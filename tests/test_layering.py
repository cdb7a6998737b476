"""Imports point one way, and some things live in one place only.

`violations` reads a module's source and says what it breaks; it runs over the library, and over
small made-up sources that break each rule.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import partwise

SOURCE = Path(partwise.__file__).parent

# A layer may import itself and those after it.
LAYERS = (
    ("cli", "__main__"),
    ("serve",),
    ("report", "plot"),
    ("estimators", "compression", "datasets", "evaluation", "metrics", "stability"),
    ("answers", "fitting", "files"),
    ("fitted",),
    ("starts", "models"),
    ("engine", "runners"),
    ("data",),
    ("association", "sampling"),
    ("likelihoods",),
    ("contracts", "typing", "_compat", "_compiled", "_text", "_warnings"),
)
HEIGHT = {name: -depth for depth, layer in enumerate(LAYERS) for name in layer}

# Not above, and yet not to be imported: (importer, imported) -> why
FORBIDDEN = {
    ("engine", "models"): "the engine names no model",
    ("models", "data"): "a model names no data source",
    ("models", "starts"): "starts use scikit-learn, models do not",
    ("models", "_compat"): "_compat uses scikit-learn, models do not",
    ("contracts", "_compat"): "contracts import nothing of ours",
    ("_compat", "contracts"): "_compat imports nothing of ours",
}

# Private by name, and yet for everybody: what tuples with names offer, and what an estimator has
# learned, which others ask.
OFFERED = frozenset(["_asdict", "_field_defaults", "_fields", "_make", "_replace", "_fitted"])

# Above, and yet allowed inside a function: (importer, imported) -> why
HANDED_OVER = {("estimators", "report"): "show() hands the model over to the page"}

MODEL_NAMES = re.compile(
    r"(?<![a-z])(mcvq|mcfa|gvq|cvq|bayesian_?pca|aspect_?model|recommender)", re.IGNORECASE
)
INPUT_OUTPUT_MODULES = frozenset(
    [
        "glob",
        "io",
        "json",
        "logging",
        "os",
        "pathlib",
        "pickle",
        "rich",
        "safetensors",
        "shutil",
        "socket",
        "subprocess",
        "sys",
        "tempfile",
        "typer",
        "urllib",
    ]
)
INPUT_OUTPUT_CALLS = frozenset(["open", "input"])
NUMPY_FILES = frozenset(
    [
        "fromfile",
        "genfromtxt",
        "load",
        "loadtxt",
        "memmap",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "tofile",
    ]
)


class Import(NamedTuple):
    """One imported name: ``from module import name``, or ``import module`` with name None."""

    module: str
    name: str | None
    in_function: bool
    for_types_only: bool
    line: int

    @property
    def words(self) -> list[str]:
        return [*self.module.split("."), *([] if self.name is None else [self.name])]


def imports(tree: ast.AST, package: str) -> Iterator[Import]:
    """All imports below `tree`; relative ones are resolved within `package`."""

    def walk(node: ast.AST, in_function: bool, for_types_only: bool) -> Iterator[Import]:
        place = (in_function, for_types_only)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, *place, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*above, *([module] if module else [])])
            for alias in node.names:
                yield Import(module, alias.name, *place, node.lineno)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from walk(child, in_function, True)
            for child in node.orelse:
                yield from walk(child, in_function, for_types_only)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.iter_child_nodes(node):
                yield from walk(child, inside, for_types_only)

    yield from walk(tree, False, False)


def our_piece(found: Import) -> str | None:
    """Which piece of the library an import reaches: None if none, '' if the whole package."""
    words = found.words
    if words[0] != "partwise":
        return None
    if len(words) == 1:
        return ""
    if words[1].startswith("__"):
        return None  # the version and the like
    if words[1] in partwise._PUBLIC:
        return partwise._PUBLIC[words[1]].split(".")[1]
    return words[1]


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree, which several rules look at."""
    return tuple(ast.walk(tree))


def is_private(word: str) -> bool:
    return word.startswith("_") and not word.startswith("__")


def docstrings(tree: ast.AST) -> set[int]:
    """Identities of the constants that are docstrings."""
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return {
        id(node.body[0].value)
        for node in nodes(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


def import_violations(piece: str, found: Import) -> Iterator[str]:
    """What one import of a module in `piece` breaks."""
    target = our_piece(found)
    if target is not None and target != piece:
        if target == "":
            if HEIGHT[piece] < HEIGHT["estimators"]:
                yield f"{piece} imports the whole package, which holds every layer"
        elif target not in HEIGHT:
            yield f"{piece} imports {target}, which has no layer"
        elif (piece, target) in FORBIDDEN:
            yield f"{piece} imports {target}: {FORBIDDEN[piece, target]}"
        elif HEIGHT[target] > HEIGHT[piece] and not (
            found.in_function and (piece, target) in HANDED_OVER
        ):
            yield f"{piece} imports {target}, which is above it"
        private = [word for word in found.words if is_private(word)]
        if private and target not in ("_compat", "_compiled", "_text", "_warnings"):
            yield f"{piece} imports {private[0]}, a private name of {target}"
    if target is None:
        if found.words[0] == "partwise_papers":
            yield f"{piece} imports partwise_papers, which is built on the library"
        if piece != "_compat" and any(is_private(word) for word in found.words):
            yield f"private name {'.'.join(found.words)} outside _compat"
        if found.words[0] == "matplotlib":
            if piece not in ("plot", "report"):
                yield "matplotlib outside plot and report"
            elif not (found.in_function or found.for_types_only):
                yield "matplotlib imported before it is used; import it inside the function"
        if piece == "models" and found.words[0] == "sklearn":
            yield "scikit-learn in models"
        if piece == "models" and found.words[0] in INPUT_OUTPUT_MODULES:
            yield f"input or output in models: {found.words[0]}"


def node_violations(piece: str, node: ast.AST) -> Iterator[str]:
    """What one expression of a module in `piece` breaks."""
    called = node.func if isinstance(node, ast.Call) else None
    if piece != "cli":
        if isinstance(called, ast.Name) and called.id == "print":
            yield "print outside cli"
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
            yield f"{ast.unparse(node)} outside cli"
    if piece != "_warnings" and called is not None and ast.unparse(called) == "warnings.warn":
        yield "warnings.warn outside _warnings, which finds the caller's line"
    if piece == "models":
        if isinstance(called, ast.Name) and called.id in INPUT_OUTPUT_CALLS:
            yield f"input or output in models: {called.id}"
        if (
            isinstance(called, ast.Attribute)
            and called.attr in NUMPY_FILES
            and ast.unparse(called.value) in ("np", "numpy")
        ):
            yield f"input or output in models: np.{called.attr}"


def private_names(tree: ast.AST) -> set[str]:
    """Private names that a module defines, for itself or for its objects."""
    found = set()
    for node in nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
    return {name for name in found if is_private(name)}


def reaches(tree: ast.AST, own: set[str]) -> Iterator[tuple[int, str]]:
    """Private attributes read of other objects that nothing in the room defines."""
    for node in nodes(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name):
                if name not in OFFERED and name not in own:
                    yield node.lineno, f"reads {ast.unparse(node)}, private to another room"


def model_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Models named in identifiers, imports and strings, docstrings apart."""
    prose = docstrings(tree)
    for node in nodes(tree):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                pass
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                pass
            case ast.alias(name=text):
                pass
            case ast.Constant(value=str(text)) if id(node) not in prose:
                pass
            case _:
                continue
        if MODEL_NAMES.search(text):
            yield getattr(node, "lineno", 0), text


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source, which is read but never changed."""
    return ast.parse(source)


def violations(path: str, source: str, own: set[str] | None = None) -> list[str]:
    """What a module breaks; `path` is relative to the package, such as ``engine/em.py``.

    ``own`` are private names that its room defines, those of the module alone if not given.
    """
    parts = Path(path).with_suffix("").parts
    piece = parts[0]
    if piece == "__init__":
        return []  # public names only, loaded when first used: test_import
    if piece not in HEIGHT:
        return [f"{path}: {piece} has no layer; give it one in {Path(__file__).name}"]
    tree = parsed(source)
    package = ".".join(["partwise", *parts[:-1]])
    found = [
        (one.line, text) for one in imports(tree, package) for text in import_violations(piece, one)
    ]
    for node in nodes(tree):
        found += [(node.lineno, text) for text in node_violations(piece, node)]
    if piece not in ("_compat", "_warnings"):  # which reach into other libraries for the rest
        found += reaches(tree, private_names(tree) if own is None else own)
    if piece == "engine":
        found += [(line, f"the engine names a model: {text}") for line, text in model_names(tree)]
    return [f"{path}:{line}: {text}" for line, text in sorted(found)]


def test_the_library_keeps_the_rules():
    sources = {
        path.relative_to(SOURCE).as_posix(): path.read_text("utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
    }
    own: dict[str, set[str]] = {}
    for path, source in sources.items():
        room = Path(path).with_suffix("").parts[0]
        own.setdefault(room, set()).update(private_names(parsed(source)))
    found = [
        text
        for path, source in sources.items()
        for text in violations(path, source, own[Path(path).with_suffix("").parts[0]])
    ]
    assert not found, "\n".join(found)


def test_the_tests_of_the_library_do_without_the_papers():
    found = [
        f"{path.name}:{one.line}"
        for path in sorted(Path(__file__).parent.rglob("*.py"))
        for one in imports(ast.parse(path.read_text("utf-8")), "tests")
        if one.words[0] == "partwise_papers"
    ]
    assert not found, f"{found} import partwise_papers; tests of it are in tests_papers"


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        # direction
        ("contracts.py", "from partwise.likelihoods import gaussian", "above it"),
        ("contracts.py", "import partwise.models.mcvq", "above it"),
        ("likelihoods/gaussian.py", "from partwise.models.mcvq import expect", "above it"),
        ("likelihoods/gaussian.py", "from ..models import mcvq", "above it"),
        ("likelihoods/__init__.py", "from ..models import mcvq", "above it"),
        ("models/mcvq.py", "from partwise import files", "above it"),
        ("engine/em.py", "def f():\n    from partwise.estimators import mcvq", "above it"),
        ("engine/em.py", "if TYPE_CHECKING:\n    from partwise.files import x", "above it"),
        ("runners/serial.py", "from partwise import make_faces", "above it"),
        ("estimators/mcvq.py", "from partwise.plot import Display", "above it"),
        ("estimators/mcvq.py", "from partwise.report import show", "above it"),
        ("models/mcvq.py", "def f():\n    from partwise.report import show", "above it"),
        ("files/model.py", "from .. import report", "above it"),
        ("engine/em.py", "import partwise", "whole package"),
        ("estimators/mcvq.py", "from partwise.misc import helper", "has no layer"),
        ("misc.py", "", "has no layer"),
        ("cli/main.py", "def f():\n    import partwise_papers.commands", "built on the library"),
        ("plot/bars.py", "from partwise_papers import registry", "built on the library"),
        ("misc/deep/er.py", "", "has no layer"),
        ("_compat.py", "from partwise.engine import em", "above it"),
        ("_compat.py", "from partwise.contracts import Block", "nothing of ours"),
        ("models/mcvq.py", "from partwise.starts.ica import unmixed", "models do not"),
        ("engine/em.py", "from partwise.starts import ica", "above it"),
        ("data/table.py", "from partwise.engine import Monitor", "above it"),
        ("likelihoods/gaussian.py", "from partwise.sampling import importance", "above it"),
        ("report/render.py", "from partwise.cli import app", "above it"),
        # private names stay in their room
        ("fitting/course.py", "from partwise.models.mcvq import _one_hot", "private name"),
        ("fitting/course.py", "from partwise.data import _rows", "private name"),
        ("report/embed.py", "def f(model): return model._theta", "private to another room"),
        ("starts/ica.py", "x = source._kept[0]", "private to another room"),
        # the engine names no model, a model no data source
        ("engine/em.py", "from partwise.models import base", "names no model"),
        ("engine/em.py", "from ..models.mcvq import expect", "names no model"),
        ("engine/em.py", "if kind == 'mcvq': pass", "engine names a model"),
        ("engine/em.py", "def fit_mcvq(): pass", "engine names a model"),
        ("engine/em.py", "step = model.GVQ", "engine names a model"),
        ("models/mcvq.py", "from partwise.data.dense import Dense", "no data source"),
        ("models/mcvq.py", "from ..data import dense", "no data source"),
        # models are mathematics
        ("models/mcvq.py", "from sklearn.cluster import KMeans", "scikit-learn in models"),
        ("models/mcvq.py", "def f():\n    import sklearn", "scikit-learn in models"),
        ("models/mcvq.py", "from partwise.starts import dependence", "models do not"),
        ("models/mcvq.py", "from partwise._compat import validate", "models do not"),
        ("models/mcvq.py", "from pathlib import Path", "input or output"),
        ("models/mcvq.py", "import os.path", "input or output"),
        ("models/mcvq.py", "open('x')", "input or output"),
        ("models/mcvq.py", "np.save('x', y)", "input or output"),
        ("models/mcvq.py", "print(1)", "print outside cli"),
        # quiet edges
        ("engine/monitor.py", "def f():\n    print('x')", "print outside cli"),
        ("report/render.py", "[print(x) for x in y]", "print outside cli"),
        ("metrics.py", "import sys\nsys.stdout.write('x')", "sys.stdout outside cli"),
        ("data/table.py", "warnings.warn('x', stacklevel=3)", "warnings.warn outside _warnings"),
        # matplotlib only when drawing
        ("plot/parts.py", "import matplotlib.pyplot as plt", "inside the function"),
        ("plot/parts.py", "class D:\n    import matplotlib", "inside the function"),
        ("report/render.py", "from matplotlib import cm", "inside the function"),
        ("estimators/mcvq.py", "def f():\n    import matplotlib", "outside plot"),
        ("cli/app.py", "import matplotlib", "outside plot"),
        # other libraries' private names
        ("estimators/mcvq.py", "from sklearn.utils import _safe_indexing", "outside _compat"),
        ("starts/ica.py", "from sklearn.utils._param_validation import X", "outside _compat"),
        ("starts/ica.py", "import sklearn.utils._tags", "outside _compat"),
        ("data/counts.py", "from scipy.sparse import _sparsetools", "outside _compat"),
    ],
)
def test_each_rule_can_fail(path, source, complaint):
    found = violations(path, source)
    assert found
    assert complaint in "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from partwise.cli import app"),
        ("cli/app.py", "import partwise\nprint(partwise.load)"),
        ("metrics.py", "from partwise import make_shapes"),
        ("report/render.py", "from partwise.plot import Display"),
        ("estimators/mcvq.py", "def show():\n    from partwise.report import show"),
        ("estimators/mcvq.py", "from partwise.models import mcvq\nfrom partwise import files"),
        ("files/model.py", "from partwise import __version__\nimport os, json"),
        ("models/mcvq.py", "from . import gating\nfrom ..likelihoods import gaussian"),
        ("models/mcvq.py", "from __future__ import annotations\nfrom numpy import load"),
        ("models/mcvq.py", "def blueprint(): return table.load()"),
        ("engine/em.py", "'''Fits MCVQ and others.'''\ndef fit():\n    '''Any, as GVQ.'''"),
        ("engine/em.py", "from partwise.contracts import Model"),
        ("plot/parts.py", "def plot():\n    import matplotlib.pyplot as plt"),
        ("plot/parts.py", "if TYPE_CHECKING:\n    from matplotlib.axes import Axes"),
        ("_compat.py", "from sklearn.utils._param_validation import Interval"),
        ("starts/ica.py", "from sklearn.decomposition import FastICA"),
        ("datasets/faces.py", "from ._drawing import ellipse"),
        ("contracts.py", "import numpy as np"),
        ("starts/ica.py", "from partwise.models import mcvq\nfrom partwise.engine import climb"),
        ("data/table.py", "class A:\n    def _own(self, other): return other._own(self)"),
        ("models/mcvq.py", "y = params._replace(x=1)"),
        ("estimators/mcvq.py", "from partwise._compat import Interval"),
    ],
)
def test_what_the_rules_allow(path, source):
    assert violations(path, source) == []
