r"""Model files: one safetensors file with the arrays and a JSON header, never pickle.

The header is one JSON document under the key ``partwise`` of safetensors' metadata. Every
safetensors reader can open the file; ours also checks it. There is a single key because safetensors
orders its metadata at random, and the same model should give the same bytes.

================== ====================================================================
header key         meaning
================== ====================================================================
``checksum``       SHA-256 of the whole file with this value written as zeros
``format``         ``"partwise"``
``format_version`` integer; a file with a larger number than ours is refused
``class``          estimator, looked up in the allow-list ``_LOADABLE``
``version``        library version that wrote the file
``arguments``      constructor arguments, encoded as below
``state``          learned values, encoded as below, arrays by the name of their tensor
``text_format``    how the text file with the rows of the fit was written, if there was one
================== ====================================================================

None, booleans, integers, finite floats, strings and lists stand for themselves. Every
JSON object has one key, which is its type: ``{"tuple": [...]}``, ``{"dict": {...}}``,
``{"numbered": [[key, value], ...]}`` (a dict whose keys are whole numbers),
``{"float": "nan"}``, ``{"array": tensor}``, ``{"unicode": tensor}`` (code points, last axis
the characters), ``{"objects": {"shape": ..., "values": ...}}`` (an object array of scalars),
``{"options": {"class": ..., "fields": ...}}`` (a dataclass in ``_OPTIONS``) and ``{"estimator":
{"class": ..., "arguments": ...}}`` (an estimator in ``_LOADABLE`` given to another). An array whose
axes are in another order in memory is ``{"axes": {"order": ..., "array": ...}}``.

Checkpoints of fits (`partwise.Checkpoint`) are such files too, of the class ``Checkpoint``
(`partwise.files.checkpoints`). Only they contain ``{"value": {"class": ..., "fields": ...}}`` (a
tuple or dataclass in ``_VALUES``) and ``{"generator": ...}`` (a random stream).

The checksum finds accidents; it is not a signature. A foreign file is harmless because it can only
name classes in the three allow-lists, and only give them plain values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Protocol, TypeAlias

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from partwise import __version__
from partwise._compat import check_arguments
from partwise.files.atomic import write_atomically
from partwise.files.contents import check_contents
from partwise.files.schema import MisfitError, sentence
from partwise.sampling.randomness import freeze, thaw
from partwise.typing import PathLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["ModelFileError", "load", "save"]

_FORMAT_VERSION = 1

# class name -> module that defines it; load() imports and constructs nothing else
_LOADABLE = {
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
_OPTIONS = {
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
_VALUES = frozenset(
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
CHECKPOINT = "Checkpoint"
# Attribute of an estimator with the format of the text file of its rows (`data.text_options`).
TEXT_FORMAT = "text_format_"

# Every file starts with eight bytes of header length and then exactly this, so that a foreign file
# is recognized by its first bytes, and the checksum is at a fixed position.
_OPENING = rb'{"__metadata__":{"partwise":"{\"checksum\":\"'
_DIGEST_START = 8 + len(_OPENING)
_NO_DIGEST = b"0" * 64
_MAX_HEADER = 100_000_000  # safetensors refuses to read a longer one

# Exceptions that a state may still raise when a model is built from it.
_UNSUITABLE = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)

_TENSOR_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


# JSON nodes, and values decoded from them. A file may contain anything; `check_contents` checks the
# values before they are used.
Node: TypeAlias = Any
Decoded: TypeAlias = Any


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or is of a version that cannot be read."""


class Saveable(Protocol):
    """Methods that `save` needs; `load` also calls ``__partwise_restore__(state)``."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Constructor arguments by name."""

    def __partwise_state__(self) -> dict[str, object]:
        """Learned values: arrays, scalars, strings, and lists, tuples and dicts of these."""


def save(estimator: Saveable, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file.

    Writing is atomic: the file is written under a temporary name in the same folder and then
    renamed. It replaces an existing file at `path`.

    Parameters
    ----------
    estimator : estimator of this library
        Fitted. Its constructor arguments must be None, booleans, numbers, strings, lists,
        tuples or dicts of these, one of the library's option objects such as ``Prior``, or one of
        its estimators.
        A generator given as ``random_state`` is stored as None, since its position in the
        stream means nothing in another process: what was learned is kept, and a later `fit` of
        the loaded estimator uses new random numbers. An integer is kept.
    path : str or path-like
        File to write. A symbolic link is followed.

    Raises
    ------
    TypeError
        If the estimator is not one of the library's own, or contains a value that a model file
        cannot store; the message names it.
    OSError
        If the file cannot be written. No partial file is left.

    See Also
    --------
    load : Read the file back.

    Examples
    --------
    >>> import tempfile
    >>> from partwise import CVQ, load, make_shapes
    >>> model = CVQ(3, 9, random_state=0).fit(make_shapes().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/shapes.safetensors")
    ...     load(f"{folder}/shapes.safetensors").n_parts
    3
    """
    write_atomically(path, _serialize_model(estimator))


def load(path: PathLike) -> BaseEstimator:
    """Read an estimator back from a file written by `save`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : estimator of this library
        Fitted, with the stored constructor arguments.

    Raises
    ------
    ModelFileError
        If the file is not a model file, or is truncated, altered, or of a newer format.
    OSError
        If there is no such file, or it cannot be opened.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> from partwise import CVQ, load, make_shapes
    >>> X = make_shapes().data
    >>> model = CVQ(3, 9, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/shapes.safetensors")
    ...     loaded = load(f"{folder}/shapes.safetensors")
    >>> bool((loaded.predict_states(X) == model.predict_states(X)).all())
    True
    """
    header, arrays = read_file(path)
    name = header["class"]
    remedy = f"load it with partwise {short(header['version'], 40)}, which wrote it"
    if name == CHECKPOINT:
        raise ModelFileError(
            f"'{path}' is the checkpoint of an unfinished fit; call that fit again with this file "
            "as checkpoint=, and save the model."
        )
    if not isinstance(name, str) or name not in _LOADABLE:
        raise ModelFileError(
            f"'{path}' contains a {short(repr(name), 40)}, which is unknown to partwise "
            f"{__version__}: {remedy}."
        )
    # The checksum is correct, so a failure from here on is a difference between versions (or a
    # file made by hand), not damage.
    try:
        estimator = _made(name, header["arguments"])
        state = decode(header["state"], arrays)
        check_contents(name, estimator.get_params(deep=False), state)
        with np.errstate(divide="raise", invalid="raise"):
            estimator.__partwise_restore__(state)
        if "text_format" in header:
            from partwise.files.text_contents import restored_format

            setattr(estimator, TEXT_FORMAT, restored_format(decode(header["text_format"], {})))
    except _UNSUITABLE as error:
        bare = f"{type(error).__name__}: {error}"
        reason = sentence(error) if isinstance(error, MisfitError) else bare
        raise ModelFileError(
            f"'{path}' contains a {name} that partwise {__version__} cannot rebuild "
            f"({short(reason)}): {remedy}."
        ) from error
    return estimator


def short(text: object, most: int = 240) -> str:
    """Text of a file for a message: on one line, printable, not too long."""
    plain = "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
    return plain if len(plain) <= most else f"{plain[:most]} ..."


# ---------------------------------------------------------------------- the file as a whole


def _serialize_model(estimator: Saveable) -> bytes:
    """Return a model file's content."""
    cls = type(estimator)
    name = cls.__name__
    if name not in _LOADABLE or cls is not _find_class(_LOADABLE, name):
        raise TypeError(
            f"{cls.__module__}.{name} cannot be saved: a model file contains only the library's "
            f"own estimators ({', '.join(_LOADABLE)}), so that loading one runs no other code."
        )
    more = {}
    if hasattr(estimator, TEXT_FORMAT):
        from partwise.files.text_contents import format_state

        written = format_state(getattr(estimator, TEXT_FORMAT))
        more = {"text_format": _encode(written, f"{TEXT_FORMAT} of {name}", "", None)}
    state = estimator.__partwise_state__()
    return serialize(name, estimator.get_params(deep=False), state, more=more)


def serialize(
    name: str,
    arguments: Mapping[str, object],
    state: Mapping[str, object],
    key: str | None = None,
    more: Mapping[str, Node] | None = None,
) -> bytes:
    """Return a file's content, checksum included; sealed with a key if there is one.

    ``more`` are further entries of the header.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {
        "checksum": _NO_DIGEST.decode(),  # first, at the position that _OPENING requires
        "format": "partwise",
        "format_version": _FORMAT_VERSION,
        "class": name,
        "version": __version__,
        "arguments": _encode_arguments(name, arguments),
        "state": _encode(state, f"learned state of {name}", "", arrays),
        **(more or {}),
    }
    if key is not None:
        header["seal"] = seal(key, header, arrays)
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    content = safetensors.numpy.save(arrays, metadata={"partwise": text})
    if int.from_bytes(content[:8], "little") > _MAX_HEADER:
        raise TypeError(
            f"{name} cannot be saved: its names and scalars need a header of more than "
            f"{_MAX_HEADER // 10**6} MB; store long lists as arrays."
        )
    if not content.startswith(_OPENING + _NO_DIGEST, 8):
        raise RuntimeError("safetensors wrote its header in an order this library cannot check")
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[:_DIGEST_START] + digest + content[_DIGEST_START + len(digest) :]


def seal(key: str, header: dict[str, Node], arrays: dict[str, np.ndarray]) -> str:
    """Keyed SHA-256 of the header and all arrays of a file."""
    said = {name: header[name] for name in ("class", "version", "arguments", "state")}
    total = hmac.new(key.encode(), json.dumps(said, sort_keys=True).encode(), "sha256")
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def read_file(path: PathLike) -> tuple[dict[str, Node], dict[str, np.ndarray]]:
    """Return header and arrays of a file, after checking that it is intact and readable."""
    damaged = ModelFileError(
        f"'{path}' is damaged (truncated, or altered since it was written): "
        "take another copy, or fit and save the model again."
    )
    # Checked before opening: opening a pipe blocks, and reading a device never ends.
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        _refuse_foreign(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_DIGEST_START + len(_NO_DIGEST))
        if len(start) < _DIGEST_START + len(_NO_DIGEST) or not start.startswith(_OPENING, 8):
            _refuse_foreign(path)
        header_size = int.from_bytes(start[:8], "little")
        if header_size > min(size - 8, _MAX_HEADER):
            raise damaged
        if _digest(file, start) != start[_DIGEST_START:]:
            raise damaged
        file.seek(0)
        content = file.read(size)
    try:
        header = json.loads(json.loads(content[8 : 8 + header_size])["__metadata__"]["partwise"])
        version = header["format_version"]
        if version > _FORMAT_VERSION:
            raise ModelFileError(
                f"'{path}' has model file format {version} and partwise {__version__} reads "
                f"up to {_FORMAT_VERSION}: upgrade partwise."
            )
        if missing := {"class", "version", "arguments", "state"} - header.keys():
            raise KeyError(*missing)
        arrays = safetensors.numpy.load(content)
    except ModelFileError:
        raise
    except (
        AttributeError,
        KeyError,
        RecursionError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        raise damaged from error
    return header, arrays


def _refuse_foreign(path: PathLike) -> NoReturn:
    raise ModelFileError(
        f"'{path}' is not a Partwise model file, or its beginning is damaged: "
        "give a file written by an estimator's save()."
    )


def _digest(file: BinaryIO, start: bytes) -> bytes:
    """SHA-256 (hex) of a file read up to the end of `start`, its digest taken as zeros."""
    total = hashlib.sha256(start[:_DIGEST_START] + _NO_DIGEST)
    while chunk := file.read(1 << 20):  # in pieces, so that a wrong file needs no memory
        total.update(chunk)
    return total.hexdigest().encode()


def _find_class(allowed: Mapping[str, str], name: str) -> Callable[..., Decoded]:
    found: Callable[..., Decoded] = getattr(import_module(allowed[name]), name)
    return found


# ---------------------------------------------------------------- values to JSON and back


def _made(name: str, nodes: dict[str, Node]) -> BaseEstimator:
    """An estimator with these arguments; old names of arguments are translated."""
    now = _RENAMED.get(name, {})
    arguments = {now.get(key, key): decode(node, {}) for key, node in nodes.items()}
    estimator = _find_class(_LOADABLE, name)(**arguments)
    check_arguments(estimator)
    return estimator


def _encode_arguments(name: str, arguments: Mapping[str, object]) -> dict[str, Node]:
    """Constructor arguments as JSON."""
    return {
        key: _encode(_without_stream(key, value), f"argument {key!r} of {name}", "", None)
        for key, value in arguments.items()
    }


def _without_stream(name: str, value: object) -> object:
    """Replace a generator given as ``random_state`` by None (see `save`)."""
    streams = (np.random.Generator, np.random.RandomState)
    return None if name == "random_state" and isinstance(value, streams) else value


def _encode(value: Decoded, owner: str, name: str, arrays: dict[str, np.ndarray] | None) -> Node:
    """Return `value` as JSON, moving arrays to `arrays` (None: arrays are refused).

    `owner` and the dotted `name` locate the value in errors; `name` also names arrays in the file.
    """

    def inside(key: str | int, item: object) -> Node:
        return _encode(item, owner, f"{name}.{key}" if name else str(key), arrays)

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
    if cls.__name__ in _OPTIONS and cls is _find_class(_OPTIONS, cls.__name__):
        fields = {f.name: inside(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"options": {"class": cls.__name__, "fields": fields}}
    if cls.__name__ in _LOADABLE and cls is _find_class(_LOADABLE, cls.__name__):
        arguments = _encode_arguments(cls.__name__, value.get_params(deep=False))
        return {"estimator": {"class": cls.__name__, "arguments": arguments}}
    # Files name the package of the contracts, not the module in it.
    kind = f"{cls.__module__}.{cls.__name__}".replace(".contracts.values.", ".contracts.")
    if arrays is not None and kind in _VALUES:
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
        encoded = [_encode(value, owner, name, None) for value in values]
        return {"objects": {"shape": list(array.shape), "values": encoded}}
    if isinstance(array, np.ma.MaskedArray):
        _refuse_value(array, owner, name)
    tag = "array"
    if array.dtype.kind == "U":
        tag = "unicode"
        width = array.dtype.itemsize // 4
        native = np.array(array, dtype=f"=U{width}", order="C")
        array = native.reshape(-1).view(np.uint32).reshape(*array.shape, width)
    elif array.dtype.name not in _TENSOR_DTYPES:
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
    """Inverse of `_encode`."""
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
            if body["class"] not in _VALUES:
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
            return _find_class(_OPTIONS, body["class"])(**fields)
        case "estimator":
            return _made(body["class"], body["arguments"])
    raise ValueError(f"unknown value kind {tag!r}")
