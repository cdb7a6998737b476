"""What a release has promised stays, or goes as docs/deprecation.md says.

Run as a script, this writes the list anew.
"""

import inspect
import json
import re
from pathlib import Path

from typer.main import get_command

import partwise
from partwise.cli import app

GOLDEN = Path(__file__).parent / "golden" / "public.json"


def members(kind):
    """Public members that are ours; which scikit-learn adds depends on its release."""
    return {
        f".{name}"
        for owner in kind.__mro__
        for name in vars(owner)
        if owner.__module__.startswith("partwise")
        and not name.startswith("_")
        and not re.fullmatch("set_.*_request", name)
    }


def public_names():
    """Arguments and members of all that can be imported, and options of the commands."""
    found = {}
    for name in sorted(set(partwise.__all__) - {"__version__"}):
        value = getattr(partwise, name)
        found[name] = sorted(inspect.signature(value).parameters)
        if inspect.isclass(value):
            found[name] += sorted(members(value))
    for name, command in get_command(app).commands.items():
        found[f"partwise {name}"] = sorted(text for each in command.params for text in each.opts)
    return found


def gone(promised, found):
    """What was promised and is not there."""
    return [
        f"{name} {each}"
        for name, members in promised.items()
        for each in members or [""]
        if name not in found or (each and each not in found[name])
    ]


def test_nothing_promised_is_gone():
    assert gone(json.loads(GOLDEN.read_text("utf-8")), public_names()) == []


def test_what_is_gone_is_seen():
    promised = {"load": ["path"], "MCVQ": [".fit", "n_parts"], "DaskRunner": []}
    assert gone(promised, {"MCVQ": [".fit"]}) == ["load path", "MCVQ n_parts", "DaskRunner "]


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in public_names().items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
