"""YAML that every reader understands alike, those of YAML 1.1 and those of 1.2.

PyYAML leaves ``1e3`` and ``0o17`` without quotes, since they are text to YAML 1.1; Kubernetes and
Compose read numbers there. So text is written plain only where it cannot be anything else.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"(?:--|/)?[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if is_plain else '"')


_Dumper.add_representer(str, _text)


def yaml_text(document: Any) -> str:  # noqa: ANN401 (any plain value)
    """A document of mappings, lists, text, numbers, booleans and None; keys keep their order."""
    return yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1_000_000,
    )
