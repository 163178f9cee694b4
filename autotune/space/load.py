"""Reads a search space: by name from the ones that ship, or from a YAML file of the user.

::

    name: decode                       # default: the file's name
    title: what it is for              # default: empty
    parameters:
      chunked_prefill_size: {choices: [2048, 4096, 8192]}
      mem_fraction_static: {low: 0.60, high: 0.95, step: 0.01}   # decimals: step is needed
      speculative_num_steps: {low: 1, high: 8}                   # whole numbers: step is 1
      disable_overlap_schedule: {switch: true}
    fixed:
      speculative_eagle_topk: 1
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError, nearest
from autotune.space.check import find_problem
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from autotune.space.space import SearchSpace
from autotune.space.yaml_lines import Located, read_yaml

_SUFFIXES = (".yaml", ".yml")
_FORMS = "{low: 1, high: 8}, {choices: [1, 2, 4]} or {switch: true}"
_RANGE = {"low", "high", "step"}


def load_space(name_or_path: str | Path) -> SearchSpace:
    """The space of a file, or the shipped space of that name.

    Args:
        name_or_path: a path if it is a ``Path``, holds a slash or ends in .yaml or .yml.

    Raises:
        SpaceError: nothing has this name, or the file is not a space; with file and line.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or "/" in text or text.endswith(_SUFFIXES):
        return _read_space(Path(name_or_path))
    names = space_names()
    if text not in names:
        raise SpaceError(
            f"there is no search space named {text!r}: {nearest(text, names)}",
            hint="a file works too: a path that ends in .yaml",
        )
    return _read_space(_shipped_dir() / f"{text}.yaml")


def space_names() -> tuple[str, ...]:
    """Names of the shipped spaces, sorted."""
    return tuple(sorted(path.stem for path in _shipped_dir().glob("*.yaml")))


def _shipped_dir() -> Path:
    """Inside the package once installed, beside it in a source checkout."""
    package = Path(__file__).parent.parent
    installed = package / "search_spaces"
    return installed if installed.is_dir() else package.parent / "search_spaces"


def _read_space(path: Path) -> SearchSpace:
    root = read_yaml(path, SpaceError)
    if root.value is None:
        raise SpaceError(f"{path} is empty: a search space needs 'parameters'")
    top = root.mapping("a search space", ("name", "title", "parameters", "fixed"))
    if "parameters" not in top:
        raise root.error("a search space needs 'parameters'")
    entries = top["parameters"].mapping("parameters")
    pins = _pins(top.get("fixed"))
    parameters = {flag: _parameter(flag, entry) for flag, entry in entries.items()}
    fixed = {flag: _fixed_value(flag, entry) for flag, entry in pins.items()}
    problem = find_problem(parameters, fixed)
    if problem is not None:
        place = pins.get(problem.flag) or entries.get(problem.flag) or top["parameters"]
        raise place.error(problem.reason)
    name = top["name"].text("name") if "name" in top else path.stem
    title = top["title"].text("title") if "title" in top else ""
    return SearchSpace(name, title, parameters, fixed)


def _pins(fixed: Located | None) -> dict[str, Located]:
    """The entries of ``fixed``, which may be left out or left empty."""
    return {} if fixed is None or fixed.value is None else fixed.mapping("fixed")


def _fixed_value(flag: str, entry: Located) -> FlagValue:
    if not isinstance(entry.value, (bool, int, float, str)):
        raise entry.error(f"{flag} must be fixed at one value, not {entry.describe()}")
    return entry.value


def _parameter(flag: str, entry: Located) -> Parameter:
    if not isinstance(entry.value, dict):
        raise entry.error(f"{flag} must be {_FORMS}, not {entry.describe()}")
    fields = entry.mapping(flag, ("low", "high", "step", "choices", "switch"))
    kinds = [k for k in (_RANGE, {"choices"}, {"switch"}) if k & fields.keys()]
    if len(kinds) != 1:
        raise entry.error(f"{flag} must be one of {_FORMS}")
    if kinds == [{"choices"}]:
        return _choice(flag, fields["choices"])
    if kinds == [{"switch"}]:
        if fields["switch"].value is not True:
            raise fields["switch"].error(f"{flag}: switch must be true; to pin a flag use 'fixed'")
        return Switch()
    return _range(flag, entry, fields)


def _choice(flag: str, entry: Located) -> Choice:
    choices = []
    for item in entry.items(f"{flag}: choices"):
        if not isinstance(item.value, (int, float, str)):
            raise item.error(f"{flag}: a choice must be a number or a text, not {item.describe()}")
        choices.append(item.value)
    with _blaming(flag, entry):
        return Choice(tuple(choices))


def _range(flag: str, entry: Located, fields: dict[str, Located]) -> IntegerRange | DecimalRange:
    for end in ("low", "high"):
        if end not in fields:
            raise entry.error(f"{flag} has no {end!r}")
    numbers = {key: field.number(f"{flag}: {key}") for key, field in fields.items()}
    low, high, step = numbers["low"], numbers["high"], numbers.get("step")
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, (int, NoneType)):
        with _blaming(flag, entry):
            return IntegerRange(low, high, 1 if step is None else step)
    if step is None:
        raise entry.error(f"{flag} has decimals, so it needs a step, such as 'step: 0.01'")
    with _blaming(flag, entry):
        return DecimalRange(float(low), float(high), float(step))


@contextmanager
def _blaming(flag: str, entry: Located) -> Iterator[None]:
    """Gives the error of a parameter that cannot be made its flag and its line."""
    try:
        yield
    except SpaceError as error:
        raise entry.error(f"{flag}: {error.message}") from None
