"""Requests and answers, as the OpenAPI page shows them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from partwise.serve.records import Scalar

Coverage = Annotated[
    float, Field(gt=0, lt=1, description="Probability that an interval contains the value.")
]
Rating = Annotated[float, Field(allow_inf_nan=False)]


class Body(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid")


class Rows(Body):
    """Rows in the user's columns and units; absent or null values are missing."""

    rows: list[dict[str, Scalar]] = Field(examples=[[{"age": 41, "smoker": None}]])


class ToImpute(Rows):
    """Rows to impute."""

    coverage: Coverage | None = Field(None, description="Also give intervals of this coverage.")


class ToPredict(Rows):
    """Rows, and columns to predict from the others."""

    columns: list[str] = Field(min_length=1)
    coverage: Coverage | None = None


class ToFind(Rows):
    """Rows to search for anomalous cells."""

    n_cells: int = Field(20, ge=1, le=10_000)


class ToCompare(Rows):
    """Rows to compare with the rows of the fit."""

    alpha: float = Field(0.01, gt=0, lt=1, description="Probability of any false alarm.")


class ToExplain(Body):
    """One row to explain."""

    row: dict[str, Scalar]
    n_columns: int = Field(5, ge=1, le=1000)


class ToSample(Body):
    """Number of rows to sample, and given values."""

    n: int = Field(1, ge=1)
    given: dict[str, Scalar] | None = None
    random_state: int | None = Field(None, ge=0, lt=2**32)


class Person(Body):
    """Ratings of one person, by item."""

    ratings: dict[str, Rating] = Field(default_factory=dict)


class ToRate(Person):
    """Items to predict the ratings of; all if not given."""

    items: list[str] | None = None
    coverage: Coverage = 0.9


class ToRecommend(Person):
    """How many items to recommend, and among which."""

    n: int = Field(10, ge=1, le=10_000)
    among: list[str] | None = None


class ToJustify(Person):
    """An item whose predicted rating to explain."""

    item: str


class Answer(BaseModel):
    """An answer, with notes on values that could not be used."""

    notes: list[str] = Field(default_factory=list)


class Imputed(Answer):
    """Rows without missing values; observed values are returned as sent."""

    rows: list[dict[str, Scalar]]
    lower: list[dict[str, Scalar]] | None = Field(None, description="Ends of imputed values.")
    upper: list[dict[str, Scalar]] | None = None


class Predicted(Answer):
    """The predicted columns."""

    rows: list[dict[str, Scalar]]
    lower: list[dict[str, Scalar]] | None = None
    upper: list[dict[str, Scalar]] | None = None


class States(Answer):
    """The most probable state of every part of every row, and its probability."""

    states: list[list[int]]
    probabilities: list[list[float]]


class Classes(Answer):
    """The most probable class of every row, and the probability of every class."""

    classes: list[Scalar]
    labels: list[Scalar]
    probabilities: list[list[float]]


class Scores(Answer):
    """Log-likelihood of every row, and anomaly score of each of its parts, in nats."""

    log_likelihood: list[float]
    anomaly_scores: list[list[float]]


class Cells(Answer):
    """Anomalous cells, the most surprising first."""

    cells: list[dict[str, Scalar]]


class Drifted(Answer):
    """Columns and parts that differ, and all tests, the most significant first."""

    drifted: list[str]
    results: list[dict[str, object]]


class Explanation(Answer):
    """State and supporting columns of every part of one row."""

    parts: list[dict[str, object]]


class Sample(BaseModel):
    """Synthetic rows."""

    rows: list[dict[str, Scalar]]


class Ratings(BaseModel):
    """Predicted ratings: median, mean and interval by item."""

    items: list[str]
    median: list[float]
    mean: list[float]
    lower: list[float]
    upper: list[float]


class Recommended(BaseModel):
    """Items to recommend, best first."""

    items: list[dict[str, Scalar]]


class NextQuestion(BaseModel):
    """The item to ask about next."""

    item: str | None


class Reasons(BaseModel):
    """Why a rating is predicted."""

    item: str
    reasons: dict[str, object]


class Described(BaseModel):
    """A served model."""

    name: str
    model: str
    columns: list[str] | None
    n_items: int | None
    questions: list[str]
    problem: str | None = Field(None, description="Why the newest file is not served.")


class Readiness(BaseModel):
    """Whether models answer."""

    ready: bool
    problems: dict[str, str] = Field(description="Models whose newest file is not served, and why.")
