from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError, ConfigError, SpaceError, WorkloadError
from autotune.space.yaml_lines import MAX_BYTES, Located, parse_yaml, read_yaml

DOCUMENT = """\
# a comment
name: mine
nested:
  deep:
    key: 3

list:
  - 1
  - two
  - {three: 3.5}
empty:
flag: true
"""


def parse(text: str) -> Located:
    return parse_yaml(text, "x.yaml")


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    return raised.value.message


def test_gives_plain_values() -> None:
    assert parse(DOCUMENT).plain() == {
        "name": "mine",
        "nested": {"deep": {"key": 3}},
        "list": [1, "two", {"three": 3.5}],
        "empty": None,
        "flag": True,
    }


def test_every_value_knows_the_line_of_its_key() -> None:
    root = parse(DOCUMENT)
    assert [(key, entry.line) for key, entry in root.mapping().items()] == [
        ("name", 2), ("nested", 3), ("list", 7), ("empty", 11), ("flag", 12),
    ]  # fmt: skip
    assert root.at("nested", "deep", "key").line == 5
    assert [item.line for item in root.at("list").items()] == [8, 9, 10]
    assert root.at() is root


def test_a_path_to_nothing_is_a_key_error() -> None:
    for path in (("name", "deeper"), ("nested", "other"), ("list", "0")):
        with pytest.raises(KeyError):
            parse(DOCUMENT).at(*path)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null"])
def test_an_empty_document_holds_nothing(text: str) -> None:
    assert parse(text).value is None


def test_errors_are_of_the_type_asked_for_and_name_file_and_line() -> None:
    root = parse_yaml(DOCUMENT, "studies/x.yaml", WorkloadError)
    error = root.at("nested", "deep").error("too deep", hint="dig less")
    assert type(error) is WorkloadError
    assert (error.message, error.hint) == ("studies/x.yaml, line 4: too deep", "dig less")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml, line 3: 'a' is given twice, first on line 1"),
        ("a:\n  b: 1\n  b: 1\n", "x.yaml, line 3: 'b' is given twice, first on line 2"),
        ("a: [1, 2\nb: 3\n", "x.yaml, line 2: not valid YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "x.yaml, line 2: not valid YAML: found character '\\t' that cannot"),
        ("a: b: c\n", "x.yaml, line 1: not valid YAML: mapping values are not allowed here"),
        (
            "a: 1\n---\nb: 2\n",
            "x.yaml, line 2: not valid YAML: expected a single document in the stream",
        ),
        ("a: &x 1\nb: *x\n", "x.yaml, line 2: not valid YAML: aliases (*name) are not accepted"),
        ("a: &x [*x]\n", "x.yaml, line 1: not valid YAML: aliases"),
        ("a: 1\n2: b\n", "x.yaml, line 2: YAML reads the key '2' as int: put it in quotes"),
        ("on: 1\n", "x.yaml, line 1: YAML reads the key 'on' as bool: put it in quotes"),
        ("<<: {a: 1}\n", "x.yaml, line 1: YAML reads the key '<<' as merge: put it in quotes"),
        ("[a, b]: 1\n", "x.yaml, line 1: a key must be a word"),
        (
            "a: 2024-01-31\n",
            "x.yaml, line 1: YAML reads '2024-01-31' as timestamp: put it in quotes",
        ),
        (
            "a: 2024-13-31\n",
            "x.yaml, line 1: YAML reads '2024-13-31' as timestamp: put it in quotes",
        ),
        ("a: !!binary aGk=\n", "x.yaml, line 1: YAML reads 'aGk=' as binary: put it in quotes"),
        ("a: !!int none\n", "x.yaml, line 1: YAML reads 'none' as int: put it in quotes"),
        (
            "a: !!python/name:os.system ''\n",
            "x.yaml, line 1: YAML reads '' as python/name:os.system: put it in quotes",
        ),
        ("a: !mine 3\n", "x.yaml, line 1: YAML reads '3' as !mine: put it in quotes"),
        ("a: 1\nb: \x07\n", "x.yaml, line 2: the character U+0007 is not text"),
        ("[" * 20_000, "x.yaml: nested too deeply"),
    ],
)
def test_says_what_is_wrong_and_where(text: str, message: str) -> None:
    assert error_of(text).startswith(message)
    assert "\n" not in error_of(text)


@given(st.text(alphabet="ab:-[]{}&*!#'\"|>%@ \n\t1.~\x00é", max_size=40))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        parse(text).plain()
    except AutotuneError as error:
        assert error.message.startswith("x.yaml")
        assert "\n" not in error.message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{a: 1}", "a mapping"), ("{}", "an empty mapping"), ("[1]", "a list"),
        ("[]", "an empty list"), ("word", "'word'"), ("true", "true"), ("no", "false"),
        ("1", "1"), ("0.50", "0.5"), ("~", "nothing"), ("x" * 60, "'" + "x" * 37 + "...'"),
    ],
)  # fmt: skip
def test_describes_what_it_found(value: str, words: str) -> None:
    assert parse(f"key: {value}").at("key").describe() == words


def test_typed_readers_give_the_value() -> None:
    root = parse("text: word\nnumber: 0.6\nint: 3\nlist: [a]\n")
    assert root.at("text").text() == "word"
    assert (root.at("number").number(), root.at("int").number()) == (0.6, 3)
    assert [item.value for item in root.at("list").items()] == ["a"]


def test_typed_readers_refuse_another_type() -> None:
    entry = parse("\nkey: true\n").at("key")
    for read, message in (
        (entry.mapping, "the key must be a mapping (key: value), not true"),
        (entry.items, "the key must be a list [a, b, ...], not true"),
        (entry.text, "the key must be a text, not true"),
        (entry.number, "the key must be a number, not true"),
    ):
        with pytest.raises(ConfigError) as raised:
            read("the key")
        assert raised.value.message == f"x.yaml, line 2: {message}"


def test_an_unknown_key_is_refused_at_its_line_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as raised:
        parse("name: x\ntitel: y\n").mapping("a study file", ("name", "title"))
    assert raised.value.message == (
        "x.yaml, line 2: a study file has no key 'titel': did you mean 'title'?"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\xff", "is not a text file in UTF-8"),
        (b"#" * (MAX_BYTES + 1), "is larger than 1 MB, so not a settings file"),
    ],
)
def test_refuses_a_file_that_is_no_text(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    with pytest.raises(SpaceError) as raised:
        read_yaml(path, SpaceError)
    assert raised.value.message == f"{path} {words}"


def test_refuses_what_cannot_be_opened(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path, f"{tmp_path} is a directory, not a YAML file"),
        (tmp_path / "none.yaml", f"{tmp_path / 'none.yaml'}: there is no such file"),
        (Path("/proc/self/mem"), "/proc/self/mem cannot be read: Input/output error"),
        (Path("a\0.yaml"), "a\0.yaml cannot be read: embedded null byte"),
    ):
        with pytest.raises(SpaceError) as raised:
            read_yaml(path, SpaceError)
        assert raised.value.message == words


def test_reads_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\n")
    assert read_yaml(path).plain() == {"name": "café"}
