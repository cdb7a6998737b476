"""Synthetic data whose true parts and states are known, and loaders for real data sets."""

from partwise.datasets.faces import make_faces
from partwise.datasets.loaders import (
    MissingDataError,
    load_ar_faces,
    load_cbcl_faces,
    load_eachmovie,
    load_mnist,
    load_movielens,
    load_nips,
    load_pearl_earring,
    load_usps,
    load_yeast,
)
from partwise.datasets.shapes import make_shapes
from partwise.datasets.survey import make_survey

__all__ = [
    "MissingDataError",
    "load_ar_faces",
    "load_cbcl_faces",
    "load_eachmovie",
    "load_mnist",
    "load_movielens",
    "load_nips",
    "load_pearl_earring",
    "load_usps",
    "load_yeast",
    "make_faces",
    "make_shapes",
    "make_survey",
]
