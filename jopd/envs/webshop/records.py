"""Reading the benchmark's JSON files; errors name the file, the record and the field."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def read_json(path: Path) -> Any:
    """The content of a JSON file, gzipped if its name ends in .gz.

    Raises:
      ValueError: the file is missing or is not JSON.
    """
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        return json.loads(text)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a data file, and where it stands, for messages."""

    where: str
    fields: dict[str, Any]

    def wrong(self, name: str, expected: str) -> ValueError:
        """The error to raise for a field that is not what it should be."""
        got = repr(self.fields[name])[:80] if name in self.fields else "nothing"
        return ValueError(f"{self.where}: field {name!r} must be {expected}, not {got}")

    def text(self, name: str) -> str:
        """A field that must be a string."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def optional_text(self, name: str) -> str:
        """A field that may be missing or null, which read as ""."""
        return "" if self.fields.get(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that must be a list of strings."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of strings")
        return tuple(value)


def listed_records(path: Path, limit: int = 0) -> Iterator[Record]:
    """The objects of a file that holds a list of them; the first `limit` if that is not 0.

    Raises:
      ValueError: the file holds something else.
    """
    content = read_json(path)
    if not isinstance(content, list):
        raise ValueError(f"{path}: must hold a list of objects, not {type(content).__name__}")
    for number, fields in enumerate(content[: limit or None]):
        if not isinstance(fields, dict):
            raise ValueError(f"{path}: record {number} must be an object, not {fields!r:.80}")
        yield Record(f"{path}: record {number} (asin {fields.get('asin')!r})", fields)


def keyed_objects(path: Path) -> dict[str, Any]:
    """The content of a file that maps product ids to something.

    Raises:
      ValueError: the file holds something else.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must map product ids to entries, not {type(content).__name__}")
    return content
