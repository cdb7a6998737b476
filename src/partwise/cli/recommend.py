"""``partwise recommend``: recommendations, the next question and reasons, from ratings."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partwise.cli.console import closest, fail, need_folders, print_table, say
from partwise.cli.tables import Encoding

if TYPE_CHECKING:
    from partwise import Recommender


def _recommender(source: Path, encoding: str | None) -> Recommender:
    """A saved recommender, or one fitted to a file of ratings."""
    from partwise import Recommender, load
    from partwise.files.ratings import read_rating_list

    with source.open("rb") as file:
        is_model = file.read(8)[5:] == bytes(3)  # a length in eight bytes; text has no NUL
    if not is_model:
        return Recommender(verbose=1).fit(read_rating_list(source, encoding))
    model = load(source)
    if not isinstance(model, Recommender):
        raise ValueError(
            f"{source} contains a {type(model).__name__}, not a Recommender; give a file of "
            "ratings, or a model written by --save."
        )
    return model


def _known(model: Recommender, text: str) -> Hashable:
    """The item with this name, or with this number."""
    if text in model.items_ or not text.lstrip("-").isdigit():
        return text
    return int(text)


def _person(model: Recommender, rated: list[str]) -> dict[Hashable, float]:
    """Ratings by item, from ITEM=RATING."""
    person: dict[Hashable, float] = {}
    for text in rated:
        item, sign, rating = text.rpartition("=")
        try:
            person[_known(model, item)] = float(rating)
        except ValueError:
            sign = ""
        if not sign:
            fail(f"Error: {text!r} is not ITEM=RATING, such as 'Alien (1979)=5'.", 2)
    return person


def recommend(
    source: Annotated[
        Path,
        typer.Argument(
            help="Ratings: a text file with columns user, item and rating, or a file of MovieLens "
            "(ratings.csv, ratings.dat, u.data); or a saved recommender.",
            show_default=False,
        ),
    ],
    rated: Annotated[
        list[str] | None,
        typer.Option(
            "--rated", "-r", metavar="ITEM=RATING", help="A rating of the person; may be repeated."
        ),
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of items.")] = 10,
    ask: Annotated[bool, typer.Option("--ask", help="Also print the item to ask next.")] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="ITEM", help="Explain the predicted rating of this item."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", help="Save the fitted recommender to this file.", show_default=False
        ),
    ] = None,
    encoding: Encoding = None,
) -> None:
    """Recommend items to a person, known or new, from their ratings.

    Examples:

      partwise recommend ratings.csv --rated "Alien (1979)=5" --ask --save model.safetensors

      partwise recommend model.safetensors --rated "Alien (1979)=5" --explain "Brazil (1985)"
    """
    need_folders(save)
    from rich.table import Table

    model = _recommender(source, encoding)
    if save is not None:
        model.save(save)
        say(f"Wrote {save}.")
    person = _person(model, rated or [])
    if explain is not None and _known(model, explain) not in model.items_:
        known = [str(item) for item in model.items_]
        fail(f"Error: there is no item {explain!r}{closest(explain, known, 'item')}", 2)
    table = Table("item", "expected rating", "80 % interval")
    for found in model.recommend(person, number):
        table.add_row(str(found.item), f"{found.rating:.2f}", f"{found.lower:g} to {found.upper:g}")
    print_table(table)
    if ask:
        say(f"Ask next: {model.next_question(person)}")
    if explain is not None:
        _print_reasons(model, person, _known(model, explain))


def _print_reasons(model: Recommender, person: dict[Hashable, float], item: Hashable) -> None:
    """Print which ratings changed a prediction."""
    reasons = model.explain(person, item)
    say(f"{item}: {reasons['rating']:.2f} expected.")
    for why in reasons["because"]:
        say(f"  {why['effect']:+.2f} for {why['item']}, rated {why['rating']:g}")
    say(f"  Similar items: {', '.join(str(name) for name in reasons['similar_items'])}.")
