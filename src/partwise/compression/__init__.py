"""Images as blocks made of few features: the paper's section 6.2, with a file format of its own."""

from partwise.compression.codec import Coded, Report, compare, compress, decompress, rival
from partwise.compression.container import CompressedFileError, read_file
from partwise.compression.pictures import psnr
from partwise.files.pictures import read_picture, write_picture

__all__ = [
    "Coded",
    "CompressedFileError",
    "Report",
    "compare",
    "compress",
    "decompress",
    "psnr",
    "read_file",
    "read_picture",
    "rival",
    "write_picture",
]
