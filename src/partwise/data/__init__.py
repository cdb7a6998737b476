"""Row-block views: how entries are stored, which are missing, what an absent one means."""

from partwise.data.cells import CellKFold, Cells
from partwise.data.columns import ColumnGroup, Kind, by_column, learn_columns
from partwise.data.rows import Rows
from partwise.data.source import RowBlock, RowSource

__all__ = [
    "CellKFold",
    "Cells",
    "ColumnGroup",
    "Kind",
    "RowBlock",
    "RowSource",
    "Rows",
    "by_column",
    "learn_columns",
]
