"""Settings by name, from a file or a run folder, into the record of some recipe: every mistake is told where it is."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

from leanrnn.errors import ConfigError

__all__ = ["changed", "from_toml"]

Settings = TypeVar("Settings")
"""The settings of some recipe: a frozen dataclass."""


def changed(config: Settings, data: Mapping[str, Any], where: str) -> Settings:
    """``config`` with other values for some of its names. An unknown name or a value of the wrong kind is an error that
    says ``where``. ::

        changed(Config(), {"widths": [300, 200]}, "my.toml")
    """
    given: Any = config  # any dataclass, which has no type of its own
    hints = get_type_hints(type(config))
    known = [field.name for field in fields(given)]
    values = {}
    for name, value in data.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are {', '.join(sorted(known))}."
            raise ConfigError(f"{where}: there is no setting {name!r}.{hint}")
        values[name] = _as(hints[name], value, f"{where}: {name}")
    return cast(Settings, replace(given, **values))


def from_toml(config: Settings, path: Path) -> Settings:
    """``config`` with the settings of a TOML file. ::

    from_toml(RECIPES["text"], Path("mine.toml"))
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}. Give the path of a TOML file with settings.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}. Write one `name = value` a line.") from error
    return changed(config, data, str(path))


def _as(kind: Any, value: Any, where: str) -> Any:
    """``value``, if it is of this kind; an integer is also a float, a list also a tuple."""
    if get_args(kind) and isinstance(get_args(kind)[0], str):
        if value in get_args(kind):
            return value
        raise ConfigError(f"{where} is {value!r}. Choose {' or '.join(get_args(kind))}.")
    if kind is float and type(value) is int:
        return float(value)
    if kind == tuple[int, ...] and isinstance(value, (list, tuple)) and all(type(each) is int for each in value):
        return tuple(value)
    if kind in (int, float, bool, str) and type(value) is kind:
        return value
    name = (
        "a list of whole numbers" if kind == tuple[int, ...] else {int: "a whole number", float: "a number"}.get(kind)
    )
    raise ConfigError(f"{where} is {value!r}. Give {name or 'true or false'}.")
