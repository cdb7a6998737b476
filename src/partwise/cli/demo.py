"""``partwise demo``: fit synthetic faces, compare with the true parts, write the explorer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partwise._text import plural
from partwise.cli.console import errors, need_folders, print_table, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from sklearn.utils import Bunch

    from partwise import MCVQ
    from partwise.contracts import Array

_FACES, _HELD_OUT = 1000, 200
_PARTS, _STATES = 5, 12  # the true number of parts; each has at most eleven states


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("report.html"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 0,
) -> None:
    """Learn the parts of synthetic faces, print the result, and write the explorer.

    Examples:

      partwise demo -o faces.html
    """
    need_folders(out)
    with _progress(5) as step:
        step("Loading")
        from partwise import MCVQ, make_faces
        from partwise.report import write_report

        step(f"Generating {_FACES} faces")
        faces = make_faces(_FACES, random_state=seed)
        known, new = faces.data[:-_HELD_OUT], faces.data[-_HELD_OUT:]

        step(f"Learning {_PARTS} parts")
        start = time.perf_counter()
        model = MCVQ(n_parts=_PARTS, n_states=_STATES, random_state=seed).fit(known)
        seconds = time.perf_counter() - start

        step("Learning one part, to compare")
        mixture = MCVQ(n_parts=1, n_states=_PARTS * _STATES, random_state=seed).fit(known)

        step("Writing the page")
        title = "Synthetic faces and their parts"
        write_report(model, out, new, faces.image_shape, title, fit_seconds=seconds)
        found = _found(model, faces, known)
        compared = _compared(model, mixture, new)
    say(
        f"Fitted {len(known)} synthetic faces of {'x'.join(map(str, faces.image_shape))} pixels "
        f"in {seconds:.1f} s ({plural(model.n_iter_, 'EM iteration')})."
    )
    print_table(found)
    agreement, n_pixels = _agreement(model, faces)
    say(
        f"Agreement with the true parts on the {n_pixels} pixels that vary: "
        f"{agreement:.3f} (adjusted Rand index; 1 is perfect, 0 is chance)."
    )
    print_table(compared)
    say(f"Wrote {out}: open it in a browser.")


class _Step:
    """Advances the progress bar; the first call starts the first step."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task, self._done = progress, task, -1

    def __call__(self, text: str) -> None:
        self._done += 1
        self._progress.update(self._task, completed=self._done, description=text)


@contextmanager
def _progress(n_steps: int) -> Iterator[_Step]:
    """Show a progress bar with the elapsed time."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=errors(), transient=True) as progress:
        yield _Step(progress, progress.add_task("", total=n_steps))


def _found(model: MCVQ, faces: Bunch, rows: Array) -> Table:
    """Parts that were found, each with the true part that it covers most."""
    import numpy as np
    from rich.table import Table

    table = Table(title="Parts found", title_justify="left")
    table.add_column("part", justify="right")
    table.add_column("pixels", justify="right")
    table.add_column("mostly")
    table.add_column("of its pixels", justify="right")
    table.add_column("states used", justify="right")
    table.add_column("true states", justify="right")
    states = model.predict_states(rows)
    sizes = np.array([(faces.masks == k).sum() for k in range(len(faces.part_names))])
    for k in range(model.gates_.shape[1]):
        own = model.parts_ == k
        shares = np.array([(own & (faces.masks == j)).sum() for j in range(len(sizes))]) / sizes
        best = int(shares.argmax())
        table.add_row(
            str(k),
            str(own.sum()),
            faces.part_names[best] if shares[best] > 0 else "background",
            f"{100 * shares[best]:.0f} %",
            str(len(np.unique(states[:, k]))),
            str(len(faces.state_names[best])) if shares[best] > 0 else "",
        )
    return table


def _agreement(model: MCVQ, faces: Bunch) -> tuple[float, int]:
    """Adjusted Rand index on pixels of parts; the other pixels are noise."""
    from sklearn.metrics import adjusted_rand_score

    of_part = faces.masks >= 0
    return adjusted_rand_score(faces.masks[of_part], model.parts_[of_part]), int(of_part.sum())


def _compared(model: MCVQ, mixture: MCVQ, rows: Array) -> Table:
    """Scores of both models on held-out rows."""
    import numpy as np
    from rich.table import Table

    table = Table(title=f"On {len(rows)} new faces (the noise is 0.1)", title_justify="left")
    table.add_column("model")
    table.add_column("reconstruction error", justify="right")
    table.add_column("log-likelihood per face", justify="right")
    for name, each in (
        (f"{_PARTS} parts, {_STATES} states each", model),
        (f"1 part, {_PARTS * _STATES} states (a mixture)", mixture),
    ):
        error = np.sqrt(np.mean((each.reconstruct(rows) - rows) ** 2))
        table.add_row(name, f"{error:.4f}", f"{each.score(rows):.1f}")
    return table
