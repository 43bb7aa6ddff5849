"""The page of the parameters of a configuration, from the docstrings of their groups and the presets."""

import dataclasses
import inspect
import re
from typing import Any

from heddle.config import GROUPS, Config, load_config, preset_names

from .tables import table

__all__ = ["configuration_page"]

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.*)\n((?:    .*\n|\n)+)", re.MULTILINE)


def configuration_page() -> str:
    """Text of the page: a table of each group, with type, default and meaning; then the values of the presets."""
    parts = ["# Parameters of a configuration\n\nTables of a `.toml` file and keywords of `heddle.Config` "
             "([how](tutorial-configuration.md)). A value that breaks a rule is a `ConfigError` with parameter, rule and value.\n"]
    defaults = Config().as_dict()
    for name, group in GROUPS.items():
        first = (inspect.getdoc(group) or "").split("\n")[0].partition(": ")[2].replace("``", "`")
        rows = table(("parameter", "type", "default", "meaning"), _rows(group, defaults))
        parts.append(f"## `[{name}]`\n\n{first[:1].upper()}{first[1:]}\n\n{rows}")
    presets = [load_config(name) for name in preset_names()]
    values = [[f"`{field.name}`", *(_text(getattr(preset, field.name)) for preset in presets)] for field in dataclasses.fields(Config)
              if field.name != "name"]
    parts.append("## Presets\n\n" + table(("parameter", *(f"`{preset.name}`" for preset in presets)), values))
    return "\n\n".join(parts) + "\n"


def _rows(group: type, defaults: dict[str, Any]) -> list[list[str]]:
    texts = {name: (kind, meaning) for names, kind, meaning in _PARAMETER.findall((inspect.getdoc(group) or "") + "\n")
             for name in names.split(", ")}
    rows = []
    for name in inspect.get_annotations(group):
        kind, meaning = texts[name]
        rows.append([f"`{name}`", kind, _text(defaults[name]), meaning.replace("``", "`")])
    return rows


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
