"""``python -m partwise`` is the command ``partwise``."""

from partwise.cli import app

app(prog_name="partwise")
