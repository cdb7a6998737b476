"""Row-block views: how entries are stored, which are missing, what an absent one means."""

from partwise.data.cells import ObservedCells
from partwise.data.columns import ColumnGroup, Kind, by_column, learn_columns
from partwise.data.rows import RowSource
from partwise.data.source import BlockSource, RowBlock

__all__ = [
    "BlockSource",
    "ColumnGroup",
    "Kind",
    "ObservedCells",
    "RowBlock",
    "RowSource",
    "by_column",
    "learn_columns",
]
