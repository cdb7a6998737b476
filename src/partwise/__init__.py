"""Partwise finds the parts that data is made of.

Public names load what they need when first used, so that ``import partwise`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# public name -> module that defines it
_PUBLIC = {
    "Annealing": "partwise.fitting.options",
    "AspectModel": "partwise.estimators.aspect",
    "BayesianPCA": "partwise.estimators.bayesian_pca",
    "BayesianPCAMixture": "partwise.estimators.bayesian_pca_mixture",
    "CVQ": "partwise.estimators.cvq",
    "CellKFold": "partwise.data.cell_folds",
    "ObservedCells": "partwise.data",
    "Checkpoint": "partwise.fitting.checkpoint",
    "DaskRunner": "partwise.runners",
    "GVQ": "partwise.estimators.gvq",
    "MCFA": "partwise.estimators.mcfa",
    "MCVQ": "partwise.estimators.mcvq",
    "PartsImputer": "partwise.estimators.imputer",
    "Prior": "partwise.likelihoods.prior",
    "Recommender": "partwise.estimators.recommender",
    "SizeOptions": "partwise.fitting.options",
    "StreamingOptions": "partwise.fitting.stream",
    "RowSource": "partwise.data",
    "IndexMaps": "partwise.models.transformations",
    "Rotations": "partwise.models.transformations",
    "Scalings": "partwise.models.transformations",
    "Translations": "partwise.models.transformations",
    "drift": "partwise.estimators.drift",
    "export_onnx": "partwise.files.onnx",
    "load": "partwise.files.model",
    "make_faces": "partwise.datasets",
    "make_shapes": "partwise.datasets",
    "make_survey": "partwise.datasets",
    "part_stability": "partwise.stability",
    "write_parquet": "partwise.estimators.sinks",
}

__all__ = [
    "CVQ",
    "GVQ",
    "MCFA",
    "MCVQ",
    "Annealing",
    "AspectModel",
    "BayesianPCA",
    "BayesianPCAMixture",
    "CellKFold",
    "Checkpoint",
    "DaskRunner",
    "IndexMaps",
    "ObservedCells",
    "PartsImputer",
    "Prior",
    "Recommender",
    "Rotations",
    "RowSource",
    "Scalings",
    "SizeOptions",
    "StreamingOptions",
    "Translations",
    "__version__",
    "drift",
    "export_onnx",
    "load",
    "make_faces",
    "make_shapes",
    "make_survey",
    "part_stability",
    "write_parquet",
]

if TYPE_CHECKING:
    __version__: str

    from partwise.data import ObservedCells, RowSource
    from partwise.data.cell_folds import CellKFold
    from partwise.datasets import make_faces, make_shapes, make_survey
    from partwise.estimators.aspect import AspectModel
    from partwise.estimators.bayesian_pca import BayesianPCA
    from partwise.estimators.bayesian_pca_mixture import BayesianPCAMixture
    from partwise.estimators.cvq import CVQ
    from partwise.estimators.drift import drift
    from partwise.estimators.gvq import GVQ
    from partwise.estimators.imputer import PartsImputer
    from partwise.estimators.mcfa import MCFA
    from partwise.estimators.mcvq import MCVQ
    from partwise.estimators.recommender import Recommender
    from partwise.files.model import load
    from partwise.files.onnx import export_onnx
    from partwise.fitting.checkpoint import Checkpoint
    from partwise.fitting.options import Annealing, SizeOptions
    from partwise.fitting.stream import StreamingOptions
    from partwise.likelihoods.prior import Prior
    from partwise.models.transformations import IndexMaps, Rotations, Scalings, Translations
    from partwise.runners import DaskRunner
    from partwise.stability import part_stability


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
    else:
        raise AttributeError(f"module 'partwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """What was installed; the source alone does not know its version, which comes from tags."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("partwise")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
