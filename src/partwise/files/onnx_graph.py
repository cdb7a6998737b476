"""Graphs of ONNX operators, written as arithmetic.

A `Node` is an array of a graph. Numpy's functions and operators of nodes add operators to the
graph, so the formulas of the laws are used as they are. All numbers are doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper
from scipy import special

from partwise.contracts import Array, DType
from partwise.likelihoods.gamma import stirling_gammaln

FLOAT, INTEGER = np.dtype(np.float64), np.dtype(np.int64)

# Of 2022: operators that are needed exist since, and current runtimes read it.
OPSET, IR_VERSION = 18, 8

Value: TypeAlias = "Node | ArrayLike"
Attribute: TypeAlias = "int | float | str | Sequence[int]"


class Graph:
    """Operators and constants, in the order in which they were added."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def input(self, name: str) -> Node:
        """An array that the caller of the graph gives."""
        return Node(self, name)

    def constant(self, value: ArrayLike) -> Node:
        """An array of the graph; floats become doubles."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return Node(self, name)

    def add(self, operator: str, *inputs: Value, **attributes: Attribute) -> Node:
        """The result of an operator."""
        names = [self._node(value).name for value in inputs]
        out = f"n{len(self._nodes)}"
        made = helper.make_node(operator, names, [out], **attributes)  # type: ignore[arg-type]
        self._nodes.append(made)
        return Node(self, out)

    def _node(self, value: Value) -> Node:
        return value if isinstance(value, Node) else self.constant(value)

    def cast(self, value: Node, dtype: DType) -> Node:
        """The same numbers as another type."""
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def sum(self, value: Value, axis: int) -> Node:
        """Sum over an axis, which is left out."""
        return self.add("ReduceSum", value, np.array([axis]), keepdims=0)

    def logsumexp(self, value: Value, axis: int) -> Node:
        """Logarithm of the sum of exponentials over an axis, which is left out."""
        return self.add("ReduceLogSumExp", value, np.array([axis]), keepdims=0)

    def take(self, value: Node, index: Array, axis: int) -> Node:
        """Entries of an axis, by numbers of any shape."""
        return self.add("Gather", value, np.asarray(index, np.int64), axis=axis)

    def total(self, values: Sequence[Node]) -> Node:
        """Sum of arrays of one shape."""
        return reduce(add, values)

    def expanded(self, value: Node, axis: int) -> Node:
        """The same with a further axis of length 1."""
        return self.add("Unsqueeze", value, np.array([axis]))

    def concatenated(self, values: Sequence[Node], axis: int) -> Node:
        """Arrays joined along an axis."""
        return self.add("Concat", *values, axis=axis)

    def model(
        self,
        name: str,
        given: dict[str, tuple[DType, int]],
        made: dict[str, tuple[Node, DType, int | None]],
    ) -> ModelProto:
        """The graph as a model.

        Parameters
        ----------
        name : str
        given : dict
            Inputs by name: type, and number of columns.
        made : dict
            Outputs by name: node, type, and number of columns (None without columns).
        """
        outputs = []
        for title, (node, dtype, width) in made.items():
            self._nodes.append(helper.make_node("Identity", [self.cast(node, dtype).name], [title]))
            outputs.append(_described(title, dtype, width))
        inputs = [_described(title, dtype, width) for title, (dtype, width) in given.items()]
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="partwise",
        )
        checker.check_model(model, full_check=True)
        return model


def _described(name: str, dtype: DType, width: int | None) -> TensorProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["n"] if width is None else ["n", width])


class Node:
    """An array of a graph; numpy's operators apply to it."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    @property
    def array(self) -> Array:
        """The node, for formulas that are written for arrays."""
        return cast(Array, self)

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *inputs: Value, **options: object
    ) -> Node:
        if method != "__call__" or options or function not in _UFUNCS:
            return NotImplemented  # numpy raises TypeError
        return _UFUNCS[function](self.graph, *inputs)

    def __add__(self, other: Value) -> Node:
        return self.graph.add("Add", self, other)

    def __sub__(self, other: Value) -> Node:
        return self.graph.add("Sub", self, other)

    def __mul__(self, other: Value) -> Node:
        return self.graph.add("Mul", self, other)

    def __truediv__(self, other: Value) -> Node:
        return self.graph.add("Div", self, other)

    def __matmul__(self, other: Value) -> Node:
        return self.graph.add("MatMul", self, other)

    def __radd__(self, other: Value) -> Node:
        return self.graph.add("Add", other, self)

    def __rsub__(self, other: Value) -> Node:
        return self.graph.add("Sub", other, self)

    def __rmul__(self, other: Value) -> Node:
        return self.graph.add("Mul", other, self)

    def __rtruediv__(self, other: Value) -> Node:
        return self.graph.add("Div", other, self)

    def __neg__(self) -> Node:
        return self.graph.add("Neg", self)


def _operator(name: str) -> Callable[..., Node]:
    return lambda graph, *inputs: graph.add(name, *inputs)


_UFUNCS: dict[np.ufunc, Callable[..., Node]] = {
    np.add: _operator("Add"),
    np.subtract: _operator("Sub"),
    np.multiply: _operator("Mul"),
    np.divide: _operator("Div"),
    np.negative: _operator("Neg"),
    np.log: _operator("Log"),
    np.exp: _operator("Exp"),
    np.maximum: _operator("Max"),
    np.minimum: _operator("Min"),
    # There is no operator for the Gamma function.
    special.gammaln: lambda graph, x: cast(Node, stirling_gammaln(x)),
    special.xlogy: lambda graph, x, y: x * graph.add("Log", y),
}


def inverse(graph: Graph, A: Node, J: int) -> tuple[Node, Node]:
    """Inverses of positive definite matrices (n, J, J), and their log determinants (n,).

    The symmetric sweep operator, which needs no pivoting here.
    """
    i, j = np.indices((J, J))
    log_det: Node | None = None
    for k in range(J):
        row, column = graph.take(A, np.array([k]), 1), graph.take(A, np.array([k]), 2)
        pivot = graph.take(row, np.array([k]), 2)  # (n, 1, 1)
        rest = A - column * row / pivot
        beside = graph.add("Where", (i == k) | (j == k), A / pivot, rest)
        A = graph.add("Where", (i == k) & (j == k), -1.0 / pivot, beside)
        log = graph.add("Squeeze", graph.add("Log", pivot), np.array([1, 2]))
        log_det = log if log_det is None else log_det + log
    assert log_det is not None
    return -A, log_det
