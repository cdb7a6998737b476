"""``partwise compress`` and ``partwise decompress``: images by features of their blocks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partwise.cli.console import need_folders, print_table, say

if TYPE_CHECKING:
    from partwise.compression import Report

_Out = Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)]


def compress(
    image: Annotated[
        Path, typer.Argument(help="Image, or a .npy array, gray or color.", show_default=False)
    ],
    out: _Out,
    features: Annotated[
        int,
        typer.Option(
            "--features",
            min=0,
            max=256,
            help="Number of features; more need more bits.",
        ),
    ] = 8,
    sets: Annotated[
        int, typer.Option("--sets", min=1, max=1024, help="Sets of features; a block uses one.")
    ] = 1,
    values: Annotated[
        int,
        typer.Option("--values", min=2, max=256, help="Values of a feature; 2: on or off."),
    ] = 2,
    side: Annotated[int, typer.Option("--block", min=1, max=255, help="Side of a block.")] = 16,
    seed: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0,
    compare: Annotated[
        bool, typer.Option(help="Also compress by plain vector quantization, and report both.")
    ] = True,
) -> None:
    """Compress an image by features of its blocks, and report bits and PSNR.

    Examples:

      partwise compress photo.png -o photo.gvq --features 8
    """
    need_folders(out)
    from partwise import compression
    from partwise.files.atomic import write_atomically

    picture = compression.read_picture(image)
    coded = compression.compress(
        picture, features, n_sets=sets, n_values=values, side=side, random_state=seed
    )
    write_atomically(out, coded.content)
    if compare:
        _print_report(compression.compare(picture, coded, side, seed), 8 * picture.size)
    else:
        quality = compression.psnr(picture, coded.image)
        say(f"{coded.bits:,} bits of {8 * picture.size:,}, PSNR {quality:.2f} dB.")
    say(f"Wrote {out}.")


def _print_report(report: Report, original: int) -> None:
    from rich.table import Table

    table = Table()
    for name in ("way", "vectors", "bits", "of the original", "PSNR (dB)"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, coded, quality in (
        ("features", report.ours, report.psnr),
        ("plain VQ", report.rival, report.rival_psnr),
    ):
        share = f"{100 * coded.bits / original:.2f} %"
        table.add_row(name, f"{coded.vectors:,}", f"{coded.bits:,}", share, f"{quality:.2f}")
    print_table(table)


def decompress(
    file: Annotated[
        Path, typer.Argument(help="File written by partwise compress.", show_default=False)
    ],
    out: _Out,
) -> None:
    """Turn a compressed image back into an image, or a .npy array.

    Examples:

      partwise decompress photo.gvq -o photo.png
    """
    need_folders(out)
    from partwise import compression

    image = compression.decompress(compression.read_file(file), str(file))
    compression.write_picture(out, image)
    say(f"Wrote {out}.")
