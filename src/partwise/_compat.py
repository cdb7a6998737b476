"""The only place that imports private or version-dependent names of other libraries."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import _check_feature_names, _check_n_features

from partwise.typing import Shaped

try:  # scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # older: the same surface without effect

    class CallbackSupportMixin:  # type: ignore[no-redef]  # in its place
        """Stands in for scikit-learn 1.9's mixin."""

        def _init_callback_context(self, **_: object) -> _NoCallbacks:
            return _NoCallbacks()


def check_columns(estimator: BaseEstimator, X: Shaped, names: object, *, reset: bool) -> None:
    """Set or check number and names of the columns, as `validate_data` does for arrays."""
    _check_feature_names(estimator, X if names is None else names, reset=reset)
    _check_n_features(estimator, X, reset=reset)


def check_arguments(estimator: BaseEstimator) -> None:
    """Refuse arguments that are not what the estimator declares, as fit does."""
    declared = getattr(estimator, "_parameter_constraints", {})
    name = type(estimator).__name__
    validate_parameter_constraints(declared, estimator.get_params(deep=False), caller_name=name)


class _NoCallbacks:
    """A callback context that calls nobody."""

    def subcontext(self, **_: object) -> _NoCallbacks:
        return self

    def call_on_fit_task_begin(self, **_: object) -> _NoCallbacks:
        return self

    def call_on_fit_task_end(self, **_: object) -> bool:
        return False


__all__ = [
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "check_arguments",
    "check_columns",
    "fit_context",
]
