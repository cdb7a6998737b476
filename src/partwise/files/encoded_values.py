r"""Arguments and learned values as JSON and arrays, and back, for model files.

None, booleans, integers, finite floats, strings and lists stand for themselves. Every
JSON object has one key, which is its type: ``{"tuple": [...]}``, ``{"dict": {...}}``,
``{"numbered": [[key, value], ...]}`` (a dict whose keys are whole numbers),
``{"float": "nan"}``, ``{"array": tensor}``, ``{"unicode": tensor}`` (code points, last axis
the characters), ``{"objects": {"shape": ..., "values": ...}}`` (an object array of scalars),
``{"options": {"class": ..., "fields": ...}}`` (a dataclass in ``OPTIONS``) and ``{"estimator":
{"class": ..., "arguments": ...}}`` (an estimator in ``LOADABLE`` given to another). An array whose
axes are in another order in memory is ``{"axes": {"order": ..., "array": ...}}``. Checkpoints alone
have ``{"value": {"class": ..., "fields": ...}}`` (a tuple or dataclass in ``VALUES``) and
``{"generator": ...}`` (a random stream).

These three allow-lists are all that a file can name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from partwise._compat import check_arguments
from partwise.sampling.randomness import freeze, thaw

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# class name -> module that defines it; load() imports and constructs nothing else
LOADABLE = {
    "AspectModel": "partwise.estimators.aspect",
    "BayesianPCA": "partwise.estimators.bayesian_pca",
    "BayesianPCAMixture": "partwise.estimators.bayesian_pca_mixture",
    "CVQ": "partwise.estimators.cvq",
    "GVQ": "partwise.estimators.gvq",
    "MCFA": "partwise.estimators.mcfa",
    "MCVQ": "partwise.estimators.mcvq",
    "PartsImputer": "partwise.estimators.imputer",
    "Recommender": "partwise.estimators.recommender",
}
OPTIONS = {
    "Annealing": "partwise.fitting.options",
    "IndexMaps": "partwise.models.transformations",
    "Prior": "partwise.likelihoods.prior",
    "Rotations": "partwise.models.transformations",
    "Scalings": "partwise.models.transformations",
    "SizeOptions": "partwise.fitting.options",
    "StreamingOptions": "partwise.fitting.stream",
    "Translations": "partwise.models.transformations",
}

# Arguments that had other names before the first release, by class.
_RENAMED = {
    "BayesianPCAMixture": {"max_components": "max_dimension"},
    "GVQ": {"n_features": "n_components"},
    "MCFA": {"absent": "sparse_absent", "entropic": "gate_entropy"},
    "MCVQ": {"absent": "sparse_absent", "entropic": "gate_entropy"},
}

# Classes of values in checkpoints: parameters, remembered row states, and the position of a fit.
VALUES = frozenset(
    [
        "partwise.contracts.Layout",
        "partwise.contracts.Packed",
        "partwise.engine.em.Place",
        "partwise.models.aspect.AspectParams",
        "partwise.models.aspect.AspectPrepared",
        "partwise.models.principal_params.BayesianPCAParams",
        "partwise.models.cvq.CVQParams",
        "partwise.models.cvq.CVQPrepared",
        "partwise.models.gating.Gates",
        "partwise.models.gvq.GVQParams",
        "partwise.models.gvq.GVQPrepared",
        "partwise.models.gvq.RowCodes",
        "partwise.models.loadings.Loadings",
        "partwise.models.factor_rows.MCFAParams",
        "partwise.models.factor_rows.MCFAPrepared",
        "partwise.models.mcvq.MCVQParams",
        "partwise.models.mcvq.MCVQPrepared",
        "partwise.models.moving.MovingParams",
        "partwise.models.moving.MovingPrepared",
        "partwise.models.moving_parts.Assignment",
        "partwise.models.moving_parts.PartsParams",
        "partwise.models.sizes.Part",
    ]
)

TENSOR_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


# JSON nodes, and values decoded from them. A file may contain anything; `check_contents` checks the
# values before they are used.
Node: TypeAlias = Any
Decoded: TypeAlias = Any


def find_class(allowed: Mapping[str, str], name: str) -> Callable[..., Decoded]:
    """A class of an allow-list by its name."""
    found: Callable[..., Decoded] = getattr(import_module(allowed[name]), name)
    return found


def made(name: str, nodes: dict[str, Node]) -> BaseEstimator:
    """An estimator with these arguments; old names of arguments are translated."""
    now = _RENAMED.get(name, {})
    arguments = {now.get(key, key): decode(node, {}) for key, node in nodes.items()}
    estimator = find_class(LOADABLE, name)(**arguments)
    check_arguments(estimator)
    return estimator


def encode_arguments(name: str, arguments: Mapping[str, object]) -> dict[str, Node]:
    """Constructor arguments as JSON."""
    return {
        key: encode(_without_stream(key, value), f"argument {key!r} of {name}", "", None)
        for key, value in arguments.items()
    }


def _without_stream(name: str, value: object) -> object:
    """Replace a generator given as ``random_state`` by None (see `partwise.files.model.save`)."""
    streams = (np.random.Generator, np.random.RandomState)
    return None if name == "random_state" and isinstance(value, streams) else value


def encode(value: Decoded, owner: str, name: str, arrays: dict[str, np.ndarray] | None) -> Node:
    """Return `value` as JSON, moving arrays to `arrays` (None: arrays are refused).

    `owner` and the dotted `name` locate the value in errors; `name` also names arrays in the file.
    """

    def inside(key: str | int, item: object) -> Node:
        return encode(item, owner, f"{name}.{key}" if name else str(key), arrays)

    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray) and arrays is None and value.dtype.kind in "iuUO":
        value = value.tolist()  # a short list of sizes, groups or names
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list):
        return [inside(i, item) for i, item in enumerate(value)]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [inside(i, item) for i, item in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: inside(key, item) for key, item in value.items()}}
    if isinstance(value, dict) and all(type(key) is int for key in value):
        return {"numbered": [[key, inside(key, item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray) and arrays is not None:
        return _encode_array(value, owner, name, arrays)
    cls = type(value)
    if cls.__name__ in OPTIONS and cls is find_class(OPTIONS, cls.__name__):
        fields = {f.name: inside(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"options": {"class": cls.__name__, "fields": fields}}
    if cls.__name__ in LOADABLE and cls is find_class(LOADABLE, cls.__name__):
        arguments = encode_arguments(cls.__name__, value.get_params(deep=False))
        return {"estimator": {"class": cls.__name__, "arguments": arguments}}
    # Files name the package of the contracts, not the module in it.
    kind = f"{cls.__module__}.{cls.__name__}".replace(".contracts.values.", ".contracts.")
    if arrays is not None and kind in VALUES:
        names = getattr(cls, "_fields", None) or [f.name for f in dataclasses.fields(value)]
        fields = {field: inside(field, getattr(value, field)) for field in names}
        return {"value": {"class": kind, "fields": fields}}
    if arrays is not None and isinstance(value, np.random.Generator):
        return {"generator": inside("generator", freeze(value))}
    return _refuse_value(value, owner, name)


def _encode_array(
    array: np.ndarray, owner: str, name: str, arrays: dict[str, np.ndarray]
) -> dict[str, Node]:
    if array.dtype.kind == "O":
        values = array.ravel().tolist()
        for value in values:
            if not (value is None or isinstance(value, bool | int | float | str)):
                _refuse_value(value, owner, name)
        encoded = [encode(value, owner, name, None) for value in values]
        return {"objects": {"shape": list(array.shape), "values": encoded}}
    if isinstance(array, np.ma.MaskedArray):
        _refuse_value(array, owner, name)
    tag = "array"
    if array.dtype.kind == "U":
        tag = "unicode"
        width = array.dtype.itemsize // 4
        native = np.array(array, dtype=f"=U{width}", order="C")
        array = native.reshape(-1).view(np.uint32).reshape(*array.shape, width)
    elif array.dtype.name not in TENSOR_DTYPES:
        _refuse_value(array, owner, name)
    # A key may contain a dot, so two values may get the same name; one of them is changed.
    while name in arrays or name == "__metadata__":
        name += "_"
    # safetensors writes the memory and ignores strides. The order of the axes is stored, since
    # sums in another order round differently.
    order = np.argsort([-abs(stride) for stride in array.strides], kind="stable")
    in_memory = array.transpose(order)
    arrays[name] = np.asarray(in_memory, dtype=array.dtype.newbyteorder("="), order="C")
    if np.all(np.diff(order) > 0):
        return {tag: name}
    return {"axes": {"order": [int(axis) for axis in order], tag: name}}


def _refuse_value(value: object, owner: str, name: str) -> NoReturn:
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        kind = f"{kind} of {value.dtype}"
    where = f"{owner}, at {name!r}," if name else owner
    raise TypeError(
        f"{where} is a {kind}, which a model file cannot store: use numbers, strings, None, or "
        "lists, tuples and dicts of these, whose keys are strings or whole numbers."
    )


def decode(node: Node, arrays: Mapping[str, np.ndarray]) -> Decoded:
    """Inverse of `encode`."""
    if isinstance(node, list):
        return [decode(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    ((tag, body),) = node.items()
    match tag:
        case "tuple":
            return tuple(decode(item, arrays) for item in body)
        case "dict":
            return {key: decode(item, arrays) for key, item in body.items()}
        case "numbered":
            return {int(key): decode(item, arrays) for key, item in body}
        case "float":
            return float(body)
        case "array":
            return arrays[body]
        case "axes":
            return arrays[body["array"]].transpose(np.argsort(body["order"]))
        case "value":
            if body["class"] not in VALUES:
                raise ValueError(f"unknown value {body['class']!r}")
            module, _, name = body["class"].rpartition(".")
            fields = {key: decode(item, arrays) for key, item in body["fields"].items()}
            return getattr(import_module(module), name)(**fields)
        case "generator":
            return thaw(decode(body, arrays))
        case "unicode":
            codes = arrays[body]
            if codes.dtype != np.uint32:
                raise ValueError(f"text in a tensor of {codes.dtype}")
            return codes.view(f"=U{codes.shape[-1]}")[..., 0]
        case "objects":
            # One by one, since numpy would make an axis of a value that is a list.
            flat = np.empty(len(body["values"]), dtype=object)
            for i, item in enumerate(body["values"]):
                flat[i] = decode(item, arrays)
            return flat.reshape(body["shape"])
        case "options":
            fields = {key: decode(item, arrays) for key, item in body["fields"].items()}
            return find_class(OPTIONS, body["class"])(**fields)
        case "estimator":
            return made(body["class"], body["arguments"])
    raise ValueError(f"unknown value kind {tag!r}")
