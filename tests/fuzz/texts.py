"""Tables as text, and lists of ratings: read, learned from and imputed as the commands do."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from partwise import MCFA, MCVQ, Recommender
from partwise.cli.tables import Reading, read_like
from partwise.data.ratings import read_ratings
from partwise.data.table import Schema
from partwise.files import read_data
from partwise.files.frames import write_filled, write_table
from partwise.files.ratings import read_rating_list
from tests.fuzz.harness import Content, Kind, mutate_bytes

# Learning takes far longer than reading, so a share of the files is learned from.
_LEARNED = 12

_STRANGE = (
    "", " ", "0", "-0", "007", "1e308", "-1e308", "1e309", "1e-320", "9" * 400, "0x10", "1_000",
    "1,5", "1.5.2", "1e", "+", "inf", "-Infinity", "nan", "NaN", "NA", "<NA>", "?", "None", "true",
    "False", "2020-01-01", "2020-13-45", "9999-12-31", "0000-00-00", "2020-01-01T25:61:61Z",
    "2020-01-01 12:00", "-5000-01-01", "99999-01-01", '"', '""', '"""', '"a', 'a"b', "a,b", "a;b",
    "a\tb", "a|b", "a::b", "a\nb", "a\r\nb", "a\rb", "\0", "\x1a", "\x0b", "\x0c", "\x1c", "\x85",
    "\u2028", "\ufeff", "é", "Ω", "\U0001f600", "\u202e", "４２", "١٢", "²", "½", "{}", "[1]", "\\",
    "#", "//", "'", "$(x)", "=1+1", "%s%n", "{0}", "a" * 3000, str(2**63), str(-(2**64)),
    str(10**30), "1e5", "4.9e-324", "user", "item", "rating", "1", "2", "5", "3.5",
)  # fmt: skip
_ENDS = ("\n", "\r\n", "\r", "\n\n", "\x85", "\u2028", "\x0b", "\n\r")
_ENCODINGS = (
    "utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1",
    "cp1252", "utf-7", "cp037", "shift-jis",
)  # fmt: skip

Grid = list[list[str]]


def _table(rng: random.Random) -> Grid:
    rows = [["age", "smoker", "weight, kg", "seen on", "code", "colour"]]
    for _ in range(30):
        rows.append(
            [
                rng.choice((str(rng.randint(18, 90)), "")),
                rng.choice(("yes", "no", "NA")),
                f"{rng.gauss(70, 10):.2f}",
                f"20{rng.randint(10, 30)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}",
                f"{rng.randint(0, 40):03}",
                rng.choice(("red", "grün", "blue")),
            ]
        )
    return rows


def _write(grid: Grid, separator: str = ",", end: str = "\n") -> str:
    def quoted(cell: str) -> str:
        needs = any(mark in cell for mark in (separator, '"', "\n", "\r"))
        return '"' + cell.replace('"', '""') + '"' if needs else cell

    return "".join(separator.join(map(quoted, row)) + end for row in grid)


def _table_seeds(folder: Path) -> None:
    rng = random.Random(0)
    grid = _table(rng)
    (folder / "commas").write_text(_write(grid), "utf-8")
    (folder / "semicolons").write_text(_write(grid, ";").replace(".", ","), "utf-8")
    (folder / "tabs").write_text(_write(grid, "\t", "\r\n"), "utf-16")
    numbers = [[f"{rng.gauss(0, 1):.3f}" for _ in range(4)] for _ in range(25)]
    (folder / "numbers").write_text(_write(numbers), "utf-8")
    (folder / "one column").write_text(_write([["x"], *([str(i % 7)] for i in range(30))]))


def _mutate_table(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    if rng.random() < 0.15:
        content = seeds[rng.choice(sorted(seeds))]
        assert isinstance(content, bytes)
        return mutate_bytes(rng, content)
    grid = _table(rng)
    return _mutate_grid(rng, grid)


def _mutate_grid(rng: random.Random, grid: Grid, separators: str = ",,,;\t| :") -> bytes:
    """Strange cells, columns and rows, in a strange form of text."""
    grid = grid[: rng.choice((1, 2, 3, 10, *[31] * 20))]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        match rng.randrange(12):
            case 0 | 1 | 2:
                row = rng.choice(grid)
                row[rng.randrange(len(row))] = rng.choice(_STRANGE)
            case 3:  # a whole column
                strange, at = rng.choice(_STRANGE), rng.randrange(len(grid[0]))
                for row in grid[rng.randrange(2) :]:
                    row[at % len(row)] = strange
            case 4:  # a column of strange values
                at = rng.randrange(len(grid[0]))
                for row in grid[1:]:
                    row[at % len(row)] = rng.choice(_STRANGE)
            case 5:
                grid[0][rng.randrange(len(grid[0]))] = rng.choice((*_STRANGE, *grid[0]))
            case 6 if rng.random() < 0.2:  # ragged
                row = rng.choice(grid)
                row[rng.randrange(len(row)) :] = rng.choices(_STRANGE, k=rng.randrange(1, 5))
            case 7:
                grid.insert(rng.randrange(len(grid) + 1), list(rng.choice(grid)))
            case 8 if rng.random() < 0.2:
                grid.insert(rng.randrange(len(grid) + 1), [rng.choice(_STRANGE)])
            case 9:  # wide
                factor = rng.choice((2, 3, 50))
                grid = [(row * factor)[:2000] for row in grid]
            case 10:
                grid = (grid * rng.choice((2, 3, 30)))[:2000]
            case 11:
                del grid[0]
                grid = grid or [["1"]]
        grid = [list(row) for row in grid]
    separator = rng.choice(separators) if rng.random() < 0.3 else ","
    end = rng.choice(_ENDS) if rng.random() < 0.1 else "\n"
    if rng.random() < 0.1:  # nothing quoted
        text = "".join(separator.join(row) + end for row in grid)
    else:
        text = _write(grid, separator, end)
    if rng.random() < 0.05:
        at = rng.randrange(len(text) + 1)
        big = rng.choice(("a" * 140_000, ",", '"', "\n" * 1000, ",".join("1" * 2000), "\0"))
        text = text[:at] + big + text[at:]
    if rng.random() < 0.05:
        text = text.rstrip("\n") if rng.random() < 0.5 else text[: rng.randrange(len(text) + 1)]
    encoding = rng.choice(_ENCODINGS) if rng.random() < 0.1 else "utf-8"
    content = text.encode(encoding, "replace")
    return mutate_bytes(rng, content, 2) if rng.random() < 0.05 else content


@functools.cache
def _model() -> MCVQ:
    """A model of tables like the seeds."""
    grid = _table(random.Random(1))
    text = _write(grid).encode()
    found = pl.read_csv(text, null_values=["", "NA"], schema_overrides={"code": pl.String})
    return MCVQ(2, 2, likelihood="auto", max_iter=5, random_state=0).fit(found)


def _warm_tables() -> None:
    """Compile what learning from such tables needs."""
    for seed in range(3):
        grid = _table(random.Random(seed))
        columns = {name: [row[i] for row in grid[1:]] for i, name in enumerate(grid[0])}
        for name in ("age", "weight, kg"):
            columns[name] = [float(cell) if cell else None for cell in columns[name]]
        _learn(pl.DataFrame(columns))
        _learn(pl.DataFrame(columns).select("weight, kg", "age"))


def _learn(X: Any) -> None:
    model = MCVQ(2, 2, likelihood="auto", max_iter=3, random_state=0).fit(X)
    model.impute(X)


def _use_table(path: Path) -> None:
    chance = random.Random(zlib.crc32(path.read_bytes()))
    common = {
        "missing": [chance.choice(("-99", "a,b", '"'))] if chance.random() < 0.2 else [],
        "encoding": chance.choice(("latin-1", "utf-16", "utf-7"))
        if chance.random() < 0.1
        else None,
        "header": chance.choice((True, False)) if chance.random() < 0.1 else None,
    }
    if chance.random() < 0.3:
        found, rows = read_like(_model(), path, Reading(**common))
        write_filled(path.with_name("filled.csv"), found, _model().impute(rows))
        return
    found = read_data(path, **common, texts=["code"] if chance.random() < 0.1 else ())
    write_table(path.with_name("out.csv"), found.X)
    if found.X.shape[1] < 1000:
        Schema.learn(found.X, "auto").encode(found.X)
    if chance.randrange(_LEARNED) == 0 and found.X.shape[0] * found.X.shape[1] < 1000:
        _learn(found.X)


# --- ratings ---


def _ratings(rng: random.Random) -> Grid:
    people = [f"p{i}" for i in range(8)]
    things = ["Alien (1979)", "Brazil, the film", "Casablanca", "Dune", "E.T."]
    rows = [[p, t, str(rng.randint(1, 5))] for p in people for t in things if rng.random() < 0.7]
    return [["user", "item", "rating"], *rows]


def _ratings_seeds(folder: Path) -> None:
    grid = _ratings(random.Random(0))
    (folder / "commas").write_text(_write(grid))
    (folder / "tabs").write_text(_write(grid, "\t"))
    colons = [f"{i % 7}::{i % 5}::{1 + i % 4}::97830{i}\n" for i in range(30)]
    (folder / "colons").write_text("".join(colons))


def _mutate_ratings(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    if rng.random() < 0.15:
        content = seeds[rng.choice(sorted(seeds))]
        assert isinstance(content, bytes)
        return mutate_bytes(rng, content)
    grid = _ratings(rng)
    if rng.random() < 0.3:
        grid[0] = rng.choice(
            (["userId", "movieId", "rating"], ["item", "rating", "user"], ["rating"] * 3, ["user"])
        )
    return _mutate_grid(rng, grid, ",,,;\t:")


def _use_ratings(path: Path) -> None:
    content = path.read_bytes()
    chance = random.Random(zlib.crc32(content))
    ratings = read_rating_list(path, chance.choice((None, None, None, "latin-1")))
    read_ratings(ratings)
    if chance.randrange(_LEARNED) == 0:
        _recommend(ratings)


def _recommend(ratings: Any) -> None:
    member = MCFA(1, 2, likelihood="ordinal", max_iter=3, random_state=0)
    model = Recommender(member).fit(ratings)
    model.recommend({model.items_[0]: ratings[2][0]}, 3)


def _warm_ratings() -> None:
    grid = _ratings(random.Random(0))[1:]
    user, item, rating = zip(*grid, strict=True)
    _recommend((list(user), list(item), [float(one) for one in rating]))


KINDS = [
    Kind("text tables", _table_seeds, _mutate_table, _use_table, ".csv", warm=_warm_tables),
    Kind("ratings", _ratings_seeds, _mutate_ratings, _use_ratings, ".csv", warm=_warm_ratings),
]
