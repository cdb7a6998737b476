"""Image compression by the features of blocks (section 6.2 of the paper), with a file format."""

from partwise.compression.channel import ChannelCode, channel_code, flip_bits
from partwise.compression.codec import Coded, Report, compare, compress, decompress, rival
from partwise.compression.container import CompressedFileError, read_file
from partwise.compression.pictures import psnr
from partwise.files.pictures import read_picture, write_picture

__all__ = [
    "ChannelCode",
    "Coded",
    "CompressedFileError",
    "Report",
    "channel_code",
    "compare",
    "compress",
    "decompress",
    "flip_bits",
    "psnr",
    "read_file",
    "read_picture",
    "rival",
    "write_picture",
]
