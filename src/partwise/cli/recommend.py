"""``partwise recommend``: recommendations, the next question and reasons, from ratings."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from partwise.cli.console import closest, fail, need_folders, print_table, say
from partwise.cli.tables import Encoding

if TYPE_CHECKING:
    from partwise import Recommender


def _is_model(source: Path) -> bool:
    with source.open("rb") as file:
        return file.read(8)[5:] == bytes(3)  # a length in eight bytes; text has no NUL


def _ratings(source: Path, encoding: str | None, columns: str) -> tuple[Sequence[Hashable], ...]:
    """Users, items and ratings of a file; users and items alone if two columns are named."""
    from partwise.files.ratings import read_rating_list

    names = tuple(name.strip() for name in columns.split(","))
    if len(names) not in (2, 3) or "" in names:
        fail(f"Error: --columns {columns!r} is not USER,ITEM or USER,ITEM,RATING.", 2)
    return read_rating_list(source, encoding, names)[: len(names)]


def _recommender(source: Path) -> Recommender:
    """A saved recommender."""
    from partwise import Recommender, load

    model = load(source)
    if not isinstance(model, Recommender):
        raise ValueError(
            f"{source} contains a {type(model).__name__}, not a Recommender; give a file of "
            "ratings, or a model written by --save."
        )
    return model


class _Known(NamedTuple):
    """Users, items and levels that a request may name: those of the ratings, or of a model.

    Levels are None where no scale was used: an item was taken, or not.
    """

    users: dict[str, Hashable]
    items: dict[str, Hashable]
    levels: set[float] | None

    @classmethod
    def of_ratings(cls, ratings: tuple[Sequence[Hashable], ...]) -> _Known:
        """Those of a file."""
        users, items = ({str(name): name for name in column} for column in ratings[:2])
        levels = {float(str(level)) for level in ratings[2]} if len(ratings) > 2 else None
        return cls(users, items, levels)

    @classmethod
    def of_model(cls, model: Recommender, needs_users: bool) -> _Known:
        """Those of a saved recommender."""
        names = model.known_users() if needs_users else []
        users, items = ({str(name): name for name in each} for each in (names, model.items_))
        return cls(users, items, None if model.implicit_ else set(model.levels_.tolist()))

    def user(self, text: str) -> Hashable:
        """The user of this name."""
        if text not in self.users:
            fail(f"Error: there is no user {text!r}{closest(text, list(self.users), 'user')}", 2)
        return self.users[text]

    def item(self, text: str) -> Hashable:
        """The item of this name."""
        if text not in self.items:
            fail(f"Error: there is no item {text!r}{closest(text, list(self.items), 'item')}", 2)
        return self.items[text]

    def person(self, rated: list[str]) -> dict[Hashable, float]:
        """Ratings by item, from ITEM=RATING; without levels ITEM alone, too."""
        person: dict[Hashable, float] = {}
        for text in rated:
            if self.levels is None and text in self.items:
                person[self.items[text]] = 1.0
                continue
            name, _, number = text.rpartition("=")
            try:
                rating = float(number)
            except ValueError:
                rating = math.nan
            if self.levels is None and (not name or math.isnan(rating)):
                self.item(text)  # fails: an item that was taken needs no rating
            if not name or math.isnan(rating):
                fail(f"Error: {text!r} is not ITEM=RATING, such as 'Alien (1979)=5'.", 2)
            if self.levels is not None and rating not in self.levels:
                scale = ", ".join(f"{level:g}" for level in sorted(self.levels)[:12])
                fail(f"Error: the rating {rating:g} of {name!r} is not on the scale {scale}.", 2)
            person[self.item(name)] = rating
        return person


def _print_scores(ratings: tuple[Sequence[Hashable], ...], k: int) -> None:
    """Print how well a model of four fifths of the ratings predicts the others."""
    from rich.table import Table

    from partwise import Recommender
    from partwise.evaluation import evaluate, random_split

    train, test = (
        tuple([column[i] for i in rows] for column in ratings)
        for rows in random_split(len(ratings[0]), random_state=0)
    )
    table = Table("model", "metric", "value", "95 % interval")
    for found in evaluate(Recommender(verbose=1).fit(train), test, k=k):
        interval = f"{found.lower:.4f} to {found.upper:.4f}"
        table.add_row(found.model, found.metric, f"{found.value:.4f}", interval)
    print_table(table)


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
            "--rated",
            "-r",
            metavar="ITEM=RATING",
            help="A rating of the person; may be repeated. Without ratings in the file, ITEM alone "
            "says that the person took it.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The person, if their ratings are in the file."),
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
    evaluate: Annotated[
        bool,
        typer.Option(
            "--evaluate",
            help="Instead hold out a fifth of the ratings, and print how well they are predicted "
            "and how many of them are recommended, compared with popular items.",
        ),
    ] = False,
    columns: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Columns of users, items and ratings; without the third, each line is an item "
            "that a user took.",
        ),
    ] = "user,item,rating",
    encoding: Encoding = None,
) -> None:
    """Recommend items to a person, known or new, from their ratings.

    Examples:

      partwise recommend ratings.csv --rated "Alien (1979)=5" --ask --save model.safetensors

      partwise recommend model.safetensors --rated "Alien (1979)=5" --explain "Brazil (1985)"

      partwise recommend sales.csv --columns customer,product --user 1024

      partwise recommend ratings.csv --evaluate
    """
    need_folders(save)
    from rich.table import Table

    from partwise import Recommender

    if user is not None and rated:
        fail("Error: --user and --rated are two people; give one.", 2)
    model, ratings = None, None
    if _is_model(source):
        if evaluate:
            fail("Error: --evaluate needs a file of ratings, not a model.", 2)
        model = _recommender(source)
        known = _Known.of_model(model, needs_users=user is not None)
    else:
        ratings = _ratings(source, encoding, columns)
        if evaluate:
            _print_scores(ratings, number)
            return
        known = _Known.of_ratings(ratings)
    # Mistakes are found before the fit.
    told = known.person(rated or [])
    named = None if user is None else known.user(user)
    wanted = None if explain is None else known.item(explain)
    if model is None:
        model = Recommender(verbose=1).fit(ratings)
    if save is not None:
        model.save(save, users=user is not None)
        say(f"Wrote {save}.")
    person = told if user is None else model.user_ratings(named)
    taken_only = known.levels is None
    table = Table(
        "item", *(["probability"] if taken_only else ["expected rating", "80 % interval"])
    )
    for found in model.recommend(person, number):
        rating = f"{found.rating:.2f}", f"{found.lower:g} to {found.upper:g}"
        table.add_row(str(found.item), *([f"{found.choice:.2f}"] if taken_only else rating))
    print_table(table)
    if ask:
        say(f"Ask next: {model.next_question(person)}")
    if explain is not None:
        _print_reasons(model, person, wanted, taken_only)


def _print_reasons(
    model: Recommender, person: dict[Hashable, float], item: Hashable, taken_only: bool
) -> None:
    """Print which ratings changed a prediction."""
    reasons = model.explain(person, item)
    what = "probability of taking it" if taken_only else "expected rating"
    say(f"{item}: {what} {reasons['rating']:.2f}.")
    for why in reasons["because"]:
        rated = "" if taken_only else f", rated {why['rating']:g}"
        say(f"  {why['effect']:+.2f} for {why['item']}{rated}")
    if reasons["similar_items"]:
        say(f"  Similar items: {', '.join(str(name) for name in reasons['similar_items'])}.")
