"""Row-block views: how entries are stored, which are missing, what an absent one means."""

from partwise.data.cells import CellKFold, Cells
from partwise.data.columns import ColumnGroup, Kind, by_column, learn_columns
from partwise.data.source import MemorySource, RowBlock

__all__ = [
    "CellKFold",
    "Cells",
    "ColumnGroup",
    "Kind",
    "MemorySource",
    "RowBlock",
    "by_column",
    "learn_columns",
]
