"""Cases of one kind of file, in worker processes that may crash, hang or take too much memory.

A `Kind` makes seed files, mutates them, and uses a mutated file as a person would. Case number n of
a campaign depends on the kind, the seed and n alone, so that every case can be had again.
Modules of this folder list their kinds in ``KINDS``.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import pkgutil
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import partwise

Content = bytes | dict[str, bytes]  # a file, or a folder's files by name

SECONDS_A_CASE = 10.0  # of the processor, so that a busy machine makes no case slow
LONGEST_WAIT = 300.0  # for a case that waits for ever without working
SECONDS_TO_START = 240.0  # imports, compilation and all seed files
MOST_MEMORY = 500 << 20  # beyond what the process had before the case
# Address space beyond what a warm process has: an allocation of more fails at once.
MOST_ADDRESSES = 2 << 30
LONGEST_MESSAGE = 600
LARGEST_FILE = 1 << 20  # of a mutated file; the bound on memory is for these

GOOD = ("worked", "refused")
BAD = ("crash", "hang", "memory", "error")

ROOT = Path(__file__).parents[2]
# Most of a case's time is the disk's, where its files are on one.
IN_MEMORY = Path("/dev/shm")
PACKAGE = str(Path(partwise.__file__).parent)


def is_clear(error: BaseException) -> bool:
    """Whether an error is one sentence of the library, not a dependency's own text."""
    message = str(error)
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return (
        innermost.filename.startswith(PACKAGE)
        and message.endswith((".", "?"))
        and len(message) <= LONGEST_MESSAGE
        and "\n" not in message
        and message.isprintable()
    )


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of file, and what is done with it.

    Attributes
    ----------
    name : str
    seeds : callable
        ``seeds(folder)`` writes seed files (or folders of files) to an empty folder, always the
        same ones. `use` works for them. A plain function of the module whose ``KINDS`` list
        the kind: workers look there.
    mutate : callable
        ``mutate(rng, seeds)`` gives the content of one case. ``seeds`` are the contents of the seed
        files by name.
    use : callable
        ``use(path)`` does what a command does with the file. It is called once for every case, and
        takes about ten milliseconds.
    suffix : str
        The end of the mutated file's name.
    accepted : tuple of exception classes
        What a file may be refused with.
    clear : callable
        Whether the message of such an error is good.
    warm : callable or None
        Compiles what seed files alone do not, before cases are timed.
    """

    name: str
    seeds: Callable[[Path], None]
    mutate: Callable[[random.Random, Mapping[str, Content]], Content]
    use: Callable[[Path], object]
    suffix: str = ""
    accepted: tuple[type[BaseException], ...] = (ValueError,)
    clear: Callable[[BaseException], bool] = is_clear
    warm: Callable[[], object] | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a case ended: one of `GOOD` or `BAD`, and what was said."""

    number: int
    verdict: str
    told: str = ""
    seconds: float = 0.0


@dataclasses.dataclass
class Tally:
    """What came out of a campaign."""

    kind: str
    seed: int
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    bad: list[Outcome] = dataclasses.field(default_factory=list)
    said: Counter[str] = dataclasses.field(default_factory=Counter)  # clear errors, without digits
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.counts[outcome.verdict] += 1
        if outcome.verdict in BAD:
            self.bad.append(outcome)
        elif outcome.verdict == "refused":
            self.said["".join(c for c in outcome.told if not c.isdigit())] += 1

    @property
    def cases(self) -> int:
        """Number of cases."""
        return self.counts.total()


# --- one case ---


def case_content(kind: Kind, seeds: Mapping[str, Content], seed: int, number: int) -> Content:
    """Make the content of a case again; files are cut to a megabyte."""
    content = kind.mutate(random.Random(f"{kind.name} {seed} {number}"), seeds)
    if isinstance(content, bytes):
        return content[:LARGEST_FILE]
    return {name: inner[:LARGEST_FILE] for name, inner in content.items()}


def write_content(path: Path, content: Content) -> Path:
    """Write a file or a folder, in place of what is there."""
    if path.is_dir():
        shutil.rmtree(path)
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    path.mkdir()
    for name, inner in content.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(inner)
    return path


def read_content(path: Path) -> Content:
    """Read a file, or all files of a folder."""
    if path.is_file():
        return path.read_bytes()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def make_seeds(kind: Kind, folder: Path) -> dict[str, Content]:
    """Seed contents of a kind by name."""
    kind.seeds(folder)
    return read_seeds(folder)


def read_seeds(folder: Path) -> dict[str, Content]:
    """Seed contents that `make_seeds` left in a folder."""
    return {path.name: read_content(path) for path in sorted(folder.iterdir())}


def attempt(kind: Kind, path: Path, number: int = 0) -> Outcome:
    """Use one file in this process: it works, is refused, or an error is bad."""
    before, started = _peak_memory(reset=True), time.monotonic()
    verdict, told = "worked", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # numpy's, of overflow and NaN
            kind.use(path)
    except MemoryError as error:
        verdict, told = "memory", _shown(error)
    except kind.accepted as error:
        if kind.clear(error):
            verdict, told = "refused", f"{type(error).__name__}: {error}".replace(str(path), "FILE")
        else:
            verdict, told = "error", _shown(error)
    except (Exception, SystemExit) as error:
        verdict, told = "error", _shown(error)
    except BaseException as error:  # pyo3's panics are no Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        verdict, told = "crash", _shown(error)
    grown = _peak_memory(reset=False) - before
    if grown > MOST_MEMORY and verdict in GOOD:
        verdict, told = "memory", f"{grown >> 20} MB more than before; {verdict}: {told}"
    return Outcome(number, verdict, told, time.monotonic() - started)


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _peak_memory(reset: bool) -> int:
    """Largest resident memory of the process, since the last reset where the system has one."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        name = "VmRSS:" if reset else "VmHWM:"
        return int(status.split(name)[1].split()[0]) << 10
    except OSError:
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest << 10


# --- the worker ---


def work(module: str, name: str, seed: int, seeds_folder: Path, scratch: Path) -> None:
    """Read numbers of cases from standard input, write outcomes to standard output."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no reply
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where, and ends the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to act on
    (kind,) = (one for one in import_module(module).KINDS if one.name == name)
    seeds = read_seeds(seeds_folder)
    path = scratch / f"case{kind.suffix}"
    if kind.warm is not None:
        with warnings.catch_warnings(action="ignore"):
            kind.warm()
    for content in seeds.values():  # loads and compiles what cases need
        outcome = attempt(kind, write_content(path, content))
        if outcome.verdict in BAD:
            raise RuntimeError(f"a seed file of {name} is bad: {outcome.told}")
    _limit_addresses()
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        number = int(line)
        content = case_content(kind, seeds, seed, number)
        write_content(path, content)
        faulthandler.dump_traceback_later(LONGEST_WAIT - 10.0)
        signal.setitimer(signal.ITIMER_PROF, SECONDS_A_CASE)
        outcome = attempt(kind, path, number)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(dataclasses.asdict(outcome)), file=replies, flush=True)


def _limit_addresses() -> None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return  # no such system: resident memory is measured all the same
    most = pages * resource.getpagesize() + MOST_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


class Worker:
    """A process that does one case after another, and is replaced if a case breaks it."""

    def __init__(self, kind: Kind, seed: int, seeds_folder: Path, scratch: Path) -> None:
        scratch.mkdir(exist_ok=True)
        module = kind.seeds.__module__
        self._arguments = (module, kind.name, str(seed), str(seeds_folder), str(scratch))
        self._errors = scratch.with_suffix(".stderr")
        self._process: subprocess.Popen[str] | None = None

    def do(self, number: int) -> Outcome:
        """One case."""
        if self._process is None:
            self._start()
        started = time.monotonic()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
            reply = self._replies.get(timeout=LONGEST_WAIT)
        except queue.Empty:
            told = self.stop()
            return Outcome(number, "hang", told, time.monotonic() - started)
        except OSError:
            reply = None
        if reply is None:
            code = self._process.wait()
            verdict = "hang" if code == -signal.SIGPROF else "crash"
            seconds = time.monotonic() - started
            return Outcome(number, verdict, f"exit code {code}\n{self.stop()}", seconds)
        return Outcome(**json.loads(reply))

    def _start(self) -> None:
        threads = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"),
            "1",
        )
        self._written = self._errors.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.harness", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._written,
            text=True,
            env=os.environ | threads,
            cwd=ROOT,
        )
        self._replies: queue.Queue[str | None] = queue.Queue()
        self._forwarder = threading.Thread(target=_forward, args=(self._process, self._replies))
        self._forwarder.start()
        try:
            first = self._replies.get(timeout=SECONDS_TO_START)
        except queue.Empty:
            first = None
        if first is None:
            raise RuntimeError(f"a worker does not start: {self.stop()}")

    def stop(self) -> str:
        """End the process; what it wrote to standard error."""
        if self._process is None:
            return ""
        self._process.kill()
        self._forwarder.join()
        with suppress(BrokenPipeError), self._process:  # closes its pipes, and waits
            pass
        self._written.close()
        self._process = None
        return self._errors.read_text(errors="replace")[-4000:]


def _forward(process: subprocess.Popen[str], replies: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        replies.put(line)
    replies.put(None)


# --- the campaign ---


def find_kinds() -> dict[str, Kind]:
    """All kinds of this folder's modules, by name."""
    found: dict[str, Kind] = {}
    for module in _modules():
        found |= {kind.name: kind for kind in getattr(module, "KINDS", ())}
    return found


def _modules() -> Iterator[object]:
    folder = Path(__file__).parent
    for info in pkgutil.iter_modules([str(folder)]):
        if info.name != "harness" and not info.name.startswith(("_", "test_")):
            yield import_module(f"tests.fuzz.{info.name}")


def run(
    kind: Kind,
    cases: int,
    seed: int = 0,
    *,
    workers: int = 2,
    seconds: float | None = None,
    keep: Path | None = None,
    tell: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run a campaign.

    Parameters
    ----------
    kind : Kind
        One of the ``KINDS`` of its module, as workers look it up by its name.
    cases : int
    seed : int
    workers : int
        Processes at a time; the cases do not depend on it.
    seconds : float, optional
        No case begins after this time.
    keep : Path, optional
        Folder for the contents of bad cases.
    tell : callable
        Called now and then with what there is so far.
    """
    tally, started = Tally(kind.name, seed), time.monotonic()
    numbers, lock, failed = iter(range(cases)), threading.Lock(), []
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="partwise-fuzz-", dir=place) as name:
        scratch, seeds_folder = Path(name), Path(name) / "seeds"
        seeds_folder.mkdir()
        seeds = make_seeds(kind, seeds_folder)

        def serve(worker: Worker) -> None:
            try:
                while not failed and (seconds is None or time.monotonic() < started + seconds):
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    outcome = worker.do(number)
                    with lock:
                        tally.add(outcome)
                        tally.seconds = time.monotonic() - started
                        if outcome.verdict in BAD and keep is not None:
                            _keep(keep, kind, outcome, case_content(kind, seeds, seed, number))
                        if tally.cases % 500 == 0:
                            tell(tally)
            except BaseException as error:
                failed.append(error)

        pool = [Worker(kind, seed, seeds_folder, scratch / f"worker{i}") for i in range(workers)]
        threads = [threading.Thread(target=serve, args=(worker,)) for worker in pool]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:  # the user's interrupt
            failed.append(error)
            for thread in threads:
                thread.join()
        finally:
            for worker in pool:
                worker.stop()
    if failed:
        raise failed[0]
    return tally


def _keep(folder: Path, kind: Kind, outcome: Outcome, content: Content) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{kind.name.replace(' ', '-')}-{outcome.number}-{outcome.verdict}"
    write_content(folder / f"{name}{kind.suffix}", content)
    (folder / f"{name}.txt").write_text(outcome.told)


def again(kind: Kind, seed: int, number: int, path: Path) -> Outcome:
    """Do one case of a campaign again, in this process; its content stays at ``path``."""
    with tempfile.TemporaryDirectory() as folder:
        seeds = make_seeds(kind, Path(folder))
    return attempt(kind, write_content(path, case_content(kind, seeds, seed, number)), number)


# --- mutations that suit every kind ---

WHOLE_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, -1)


def mutate_bytes(rng: random.Random, content: bytes, most: int = 8) -> bytes:
    """Flip, cut out, repeat, insert, overwrite or truncate at random places."""
    out = bytearray(content)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(out) + 1)
        length = min(int(2 ** rng.uniform(0, 8)), len(out))
        match rng.randrange(9):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = rng.randbytes(length)
            case 4:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + length]
            case 5:
                number = rng.choice(WHOLE_NUMBERS)
                size = rng.choice((1, 2, 4, 8))
                order = rng.choice(("little", "big"))
                out[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, order)
            case 6:
                del out[at:]
            case 7:
                out[at : at + length] = bytes([rng.randrange(256)]) * length
            case 8:
                out += rng.randbytes(length)
    return bytes(out)


if __name__ == "__main__":
    # Imported under its own name, so that classes of this module are those that kinds use.
    import_module("tests.fuzz.harness").work(
        sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5])
    )
