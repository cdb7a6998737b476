"""Model files: values come back as they were, damaged files are refused."""

import hashlib
import json
import os
import stat
import struct
import sys
import types
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy
from numpy.testing import assert_array_equal

from partwise import MCVQ
from partwise.files import encoded_values
from partwise.files import model as model_files
from partwise.files.contents import CONTENTS
from partwise.files.model import ModelFileError, load, save
from partwise.files.schema import Anything


@dataclass(frozen=True)
class Prior:
    strength: float = 1.0
    names: tuple[str, ...] = ()


class Toy:
    """Stand-in with the three methods that model files ask of an estimator."""

    def __init__(self, n_parts: Any = 2, prior: Any = None, random_state: Any = None) -> None:
        self.n_parts = n_parts
        self.prior = prior
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {
            "n_parts": self.n_parts,
            "prior": self.prior,
            "random_state": self.random_state,
        }

    def __partwise_state__(self) -> dict[str, Any]:
        return self.state

    def __partwise_restore__(self, state: dict[str, Any]) -> None:
        self.state = state


def toy(state: dict[str, Any] | None = None, **arguments: Any) -> Toy:
    model = Toy(**arguments)
    model.state = {"means": np.arange(6.0).reshape(2, 3)} if state is None else state
    return model


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    module = types.ModuleType("partwise_toy")
    module.Toy, module.Prior = Toy, Prior
    monkeypatch.setitem(sys.modules, "partwise_toy", module)
    monkeypatch.setitem(encoded_values.LOADABLE, "Toy", "partwise_toy")
    monkeypatch.setitem(CONTENTS, "Toy", Anything())
    monkeypatch.setitem(encoded_values.OPTIONS, "Prior", "partwise_toy")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(left: Any, right: Any) -> None:
    """Equal in value, type, dtype, shape and structure."""
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert_array_equal(left, right)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        assert repr(left) == repr(right)  # NaN equals NaN, and -0.0 is not 0.0


def there_and_back(model: Toy, path: Any) -> Toy:
    save(model, path)
    return load(path)


def reseal(path: Any, change: Any) -> None:
    """Change the JSON header of a model file and give it a right checksum again."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    document = json.loads(header["__metadata__"]["partwise"])
    change(document)
    document["checksum"] = "0" * 64
    header["__metadata__"]["partwise"] = json.dumps(document, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    content = struct.pack("<Q", len(text)) + text + content[8 + size :]
    digest = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content.replace(b"0" * 64, digest, 1))


def assert_refused(path: Any, *words: str) -> str:
    """Load fails with one sentence that names the file."""
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


# ------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        10**30,
        0.1,
        -0.0,
        float("nan"),
        float("-inf"),
        "états \ud800 \u2028 \x00",
        [],
        (),
        {},
        [1, (2.0, [None]), {"a.b": {"": False}}],
    ],
    ids=repr,
)
def test_plain_values(value, path):
    assert_same(there_and_back(toy({"v": value}), path).state, {"v": value})


@pytest.mark.parametrize("dtype", sorted(encoded_values.TENSOR_DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_number_arrays(dtype, shape, path):
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype=dtype)
    loaded = there_and_back(toy({"v": array}), path).state["v"]
    assert_same(loaded, array)
    assert loaded.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4)[:, ::-1, ::2],
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.broadcast_to(np.float32(2), (3, 4)),
        np.array([np.nan, np.inf, -0.0]),
    ],
    ids=["strided", "fortran", "broadcast", "special"],
)
def test_memory_layout_does_not_matter(array, path):
    assert_same(there_and_back(toy({"v": array}), path).state["v"], array)


def test_other_byte_order_comes_back_native(path):
    array = np.arange(4, dtype=">i4")
    assert_same(there_and_back(toy({"v": array}), path).state["v"], array.astype("=i4"))


@pytest.mark.parametrize(
    "array",
    [
        np.array(["brow", "", "ß\U0001f600"]),
        np.array([["a"], ["b"]], dtype="U7"),
        np.array("alone"),
        np.array([], dtype="U3"),
        np.array(["ab", "c"], dtype=object),
        np.array([["x", None], [1, 2.5]], dtype=object),
        np.array([], dtype=object),
        np.array(["x", np.nan], dtype=object),
    ],
    ids=repr,
)
def test_text_arrays(array, path):
    loaded = there_and_back(toy({"v": array}), path).state["v"]
    assert loaded.dtype == array.dtype
    assert_same(loaded.tolist(), array.tolist())
    assert loaded.shape == array.shape


def test_numpy_scalars_become_plain_numbers(path):
    state = {"i": np.int64(3), "f": np.float64(0.5), "b": np.bool_(True), "s": np.str_("x")}
    loaded = there_and_back(toy(state, n_parts=np.int32(4)), path)
    assert_same(loaded.state, {"i": 3, "f": 0.5, "b": True, "s": "x"})
    assert_same(loaded.n_parts, 4)


def test_nested_arrays_have_readable_names(path):
    state = {"theta": {"chi": (np.ones(2), [np.zeros((1, 2), bool), "note"])}, "n_iter": 7}
    assert_same(there_and_back(toy(state), path).state, state)
    assert set(safetensors.numpy.load_file(path)) == {"theta.chi.0", "theta.chi.1.0"}


def test_names_that_clash_are_kept_apart(path):
    state = {"a.b": np.ones(1), "a": {"b": np.zeros(2)}, "__metadata__": np.full(3, 5.0)}
    assert_same(there_and_back(toy(state), path).state, state)


def test_text_that_looks_like_the_header(path):
    state = {"checksum": "0" * 64, "text": '{"checksum":"' + "0" * 64 + '"}'}
    assert_same(there_and_back(toy(state), path).state, state)


@pytest.mark.parametrize(
    "value", ["auto", 3, None, 0.25, [3, 4], (2, "x"), {"a": 1}, Prior(2.0, ("x",))], ids=repr
)
def test_arguments(value, path):
    loaded = there_and_back(toy(n_parts=value), path).n_parts
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    "stream", [np.random.default_rng(0), np.random.RandomState(0)], ids=["new", "old"]
)
def test_a_generator_is_stored_as_none_and_a_seed_as_itself(stream, path):
    assert there_and_back(toy(random_state=stream), path).random_state is None
    assert there_and_back(toy(random_state=12), path).random_state == 12


def test_the_same_model_gives_the_same_bytes(path, tmp_path):
    save(toy(), path)
    save(toy(), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_the_file_is_plain_safetensors_with_a_json_header(path):
    save(toy(), path)
    with safetensors.safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["partwise"])
    assert header["format"] == "partwise"
    assert header["format_version"] == 1
    assert header["class"] == "Toy"
    assert header["arguments"] == {"n_parts": 2, "prior": None, "random_state": None}


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.ones(2), "ndarray"),
        (len, "builtin_function_or_method"),
        (np.random.default_rng(0), "Generator"),
        ([1, {2}], "set"),
        (1j, "complex"),
        ({1.5: "a"}, "dict"),
        (model_files, "module"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_argument_that_cannot_be_kept_is_named(value, kind, path):
    with pytest.raises(TypeError, match=rf"argument 'n_parts' of Toy.* is a {kind}\b"):
        save(toy(n_parts=value), path)
    assert os.listdir(path.parent) == []


def test_an_estimator_given_to_another_comes_back(path):
    inner = there_and_back(toy(n_parts=[Toy(n_parts=3), Toy()]), path).n_parts
    assert [type(one) for one in inner] == [Toy, Toy]
    assert inner[0].n_parts == 3


@pytest.mark.parametrize(
    "value",
    [
        np.array([1j]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([b"x"]),
        np.array([[1], None], dtype=object),
        np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        np.zeros(2, dtype=[("a", float)]),
        types.SimpleNamespace(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_learned_value_that_cannot_be_kept_is_named(value, path):
    with pytest.raises(TypeError, match=r"learned state of Toy, at 'theta\.1',"):
        save(toy({"theta": [0, value]}), path)


def test_a_named_tuple_is_refused_since_it_would_come_back_as_another_type(path):
    class Theta(NamedTuple):
        mu: float

    with pytest.raises(TypeError, match="is a Theta"):
        save(toy({"theta": Theta(0.5)}), path)


def test_other_classes_are_refused(path):
    class Mine(Toy):
        pass

    with pytest.raises(TypeError, match="Mine cannot be saved"):
        save(Mine(), path)
    Mine.__name__ = "Toy"  # the right name is not enough
    with pytest.raises(TypeError, match="Toy cannot be saved"):
        save(Mine(), path)


def test_other_dataclasses_are_refused(path):
    @dataclass(frozen=True)
    class Options:
        size: int = 1

    with pytest.raises(TypeError, match="argument 'prior' of Toy is a Options"):
        save(toy(prior=Options()), path)


@pytest.mark.parametrize(
    "names",
    [{1: "size"}, ["a", "b"], ("a", "b"), np.array(["a", "b"]), np.array(["a", "b"], object)],
    ids=lambda names: type(names).__name__,
)
def test_names_of_parts_in_all_forms_are_kept(names, path):
    """Arrays and numbered names, as in the documentation, could not be saved."""
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = MCVQ(2, 2, max_iter=100, random_state=0).fit(X).set_params(part_names=names)
    model.save(path)
    assert load(path).part_names_ == model.part_names_
    assert model.part_names_[1] in ("size", "b")


# ------------------------------------------------------------------------------ damaged files


@pytest.mark.parametrize(
    "content",
    [b"", b"x", bytes(8), bytes(500), b"\xff" * 500, b"PK\x03\x04" * 100, b"\x80\x04N." * 50],
    ids=["empty", "byte", "eight", "zeros", "ones", "zip", "pickle"],
)
def test_a_file_of_another_kind(content, path):
    path.write_bytes(content)
    assert_refused(path, "not a Partwise model file", "save()")


def test_random_bytes(path):
    rng = np.random.default_rng(0)
    for size in rng.integers(1, 4000, 50):
        path.write_bytes(rng.bytes(size))
        assert_refused(path, "not a Partwise model file")


def test_a_safetensors_file_that_is_not_ours(path):
    safetensors.numpy.save_file({"means": np.ones(200)}, path)
    assert_refused(path, "not a Partwise model file")
    safetensors.numpy.save_file({"means": np.ones(200)}, path, metadata={"partwise": "{}"})
    assert_refused(path, "not a Partwise model file")


def test_truncated_anywhere(path):
    save(toy(), path)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        assert_refused(path)


def test_something_added(path):
    save(toy(), path)
    with open(path, "ab") as file:
        file.write(b"\n")
    assert_refused(path, "damaged")


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF])
def test_one_byte_altered_anywhere(flip, path):
    """Header length, header, its padding, checksum and data alike."""
    save(toy(), path)
    content = path.read_bytes()
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= flip
        path.write_bytes(altered)
        assert_refused(path)


@pytest.mark.parametrize("length", [2**63, 2**40, 10**8 + 1])
def test_a_header_length_beyond_the_file_allocates_nothing(length, path, monkeypatch):
    save(toy(), path)
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    # Reached only after the length was believed.
    monkeypatch.setattr(model_files, "_digest", lambda *_: pytest.fail("the length was believed"))
    assert_refused(path, "damaged")


def test_a_huge_foreign_file_is_known_from_its_first_bytes(path):
    with open(path, "wb") as file:
        file.truncate(2**40)  # a hole: takes no room on the disk, would take 1 TB of memory
    assert_refused(path, "not a Partwise model file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting(path):
    os.mkfifo(path)
    assert_refused(path, "not a Partwise model file")


def test_no_such_file_stays_the_usual_error(path):
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(IsADirectoryError):
        load(path.parent)


# ---------------------------------------------------- whole files that we still cannot read


def test_resealing_alone_changes_nothing(path):
    save(toy(), path)
    reseal(path, lambda header: None)
    assert_same(load(path).state, toy().state)


def test_a_newer_format(path):
    save(toy(), path)
    reseal(path, lambda header: header.update(format_version=2, state="of another shape"))
    assert_refused(path, "format 2", "upgrade partwise")


@pytest.mark.parametrize("name", ["NextYears", "Popen", ["Toy"]])
def test_an_unknown_class(name, path):
    save(toy(), path)
    reseal(path, lambda header: header.update({"class": name, "version": "9.8.7"}))
    assert_refused(path, "unknown to partwise", "partwise 9.8.7")


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"unheard_of": 1}},
        {"arguments": {"prior": {"options": {"class": "Popen", "fields": {}}}}},
        {"arguments": {"prior": {"options": {"class": "Prior", "fields": {"odd": 1}}}}},
        {"arguments": []},
        {"state": {"array": "not there"}},
        {"state": {"unicode": "means"}},
        {"state": {"strange": 1}},
        {"state": {"tuple": 1}},
        {"state": {}},
        {"state": {"objects": {"shape": [10**9, 10**9], "values": []}}},
    ],
    ids=str,
)
def test_a_file_made_by_hand(change, path):
    save(toy(), path)
    reseal(path, lambda header: header.update(change))
    assert_refused(path, "cannot rebuild", "which wrote it")


def test_a_header_without_its_keys(path):
    save(toy(), path)
    reseal(path, lambda header: header.pop("state"))
    assert_refused(path, "damaged")


def test_a_state_the_estimator_refuses(path, monkeypatch):
    save(toy(), path)
    monkeypatch.setattr(Toy, "__partwise_restore__", lambda self, state: state["missing"])
    assert_refused(path, "cannot rebuild", "KeyError")


# ------------------------------------------------------------------------------ atomic writing


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(step, error, path, monkeypatch):
    save(toy(), path)
    before = path.read_bytes()

    def fail(*_):
        raise error("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(error, match="disk full"):
        save(toy({"other": 1}), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_in_the_way_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        save(toy(), tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_saving_again_replaces(path):
    save(toy(), path)
    assert there_and_back(toy({"other": 1}), path).state == {"other": 1}
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_are_the_usual_ones_and_links_are_followed(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    save(toy(), str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "usual").touch()
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == usual
