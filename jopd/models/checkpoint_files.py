"""Directories of safetensors files: partial reads, streamed writes, all or nothing."""

import contextlib
import errno
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_CODES = {
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(np.float16): "F16",
    np.dtype(np.float32): "F32",
}
_ALIGNMENT = 8  # bytes; the tensor data starts at a multiple of it


class CheckpointError(ValueError):
    """A checkpoint directory does not hold, or cannot be made to hold, what was asked for."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      CheckpointError: there is no such file, or no object in it.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; give a Hugging Face checkpoint directory")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object, got {type(content).__name__}")
    return content


@dataclass(frozen=True, slots=True)
class TensorReader:
    """The tensors of a directory, of which any part can be read while the files are open.

    Attributes:
      slices: name of a tensor -> its handle in its file.
    """

    slices: Mapping[str, Any]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor."""
        return {name: tuple(part.get_shape()) for name, part in self.slices.items()}

    def unreadable(self) -> dict[str, str]:
        """Tensors that are no plain floats, with the type they have (of quantised checkpoints)."""
        codes = {name: part.get_dtype() for name, part in self.slices.items()}
        return {name: code for name, code in codes.items() if code not in _CODES.values()}

    def read(self, name: str, window: tuple[slice, ...]) -> np.ndarray:
        """A window of a tensor, in the type it is stored in; only these bytes are read."""
        return self.slices[name][window]


@contextlib.contextmanager
def open_tensors(directory: Path) -> Iterator[TensorReader]:
    """Opens all safetensors files of a directory; nothing but their headers is read.

    Raises:
      CheckpointError: there are no safetensors files, or some are missing or damaged.
    """
    slices = {}
    with contextlib.ExitStack() as stack:
        for file in _tensor_files(directory):
            tensors = stack.enter_context(_open(file))
            slices |= {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118 - no dict
        yield TensorReader(slices)


def _tensor_files(directory: Path) -> list[Path]:
    if (directory / SINGLE_FILE).is_file():
        return [directory / SINGLE_FILE]
    if not (directory / INDEX_FILE).is_file():
        raise CheckpointError(_no_tensors(directory))
    weight_map = read_json(directory / INDEX_FILE).get("weight_map", {})
    files = [directory / name for name in sorted(set(weight_map.values()))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(
            f"{directory / INDEX_FILE} names files that are missing: {', '.join(missing)}; "
            f"download the checkpoint again"
        )
    return files


def _no_tensors(directory: Path) -> str:
    message = f"{directory} has neither {SINGLE_FILE} nor {INDEX_FILE}"
    others = sorted(
        file.name for pattern in ("*.bin", "*.gguf") for file in directory.glob(pattern)
    )
    if not others:
        return f"{message}; give a Hugging Face checkpoint directory"
    return (
        f"{message}, only {', '.join(others)}; load these with transformers and save them again "
        f"with save_pretrained, which writes safetensors"
    )


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="numpy")
    except SafetensorError as error:
        raise CheckpointError(
            f"{file} is damaged or no safetensors file ({error}); download it again"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor to be written, computed only when its turn comes.

    Attributes:
      name: its name in the file.
      shape: its shape.
      compute: returns it.
    """

    name: str
    shape: tuple[int, ...]
    compute: Callable[[], np.ndarray]

    def num_bytes(self, dtype: np.dtype) -> int:
        """Bytes of the tensor in a file."""
        return int(np.prod(self.shape, dtype=np.int64)) * dtype.itemsize


def write_tensors(
    directory: Path, tensors: Iterable[StoredTensor], dtype: np.dtype, max_shard_bytes: int
) -> None:
    """Writes tensors into one file, or into several with an index, holding one tensor at a time.

    Args:
      directory: exists.
      tensors: in the order in which they are written.
      dtype: type of every tensor in the files.
      max_shard_bytes: no file is larger, unless a single tensor is.
    """
    shards = _shards(tensors, dtype, max_shard_bytes)
    if len(shards) == 1:
        _write_file(directory / SINGLE_FILE, shards[0], dtype)
        return
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_file(directory / name, shard, dtype)
        weight_map |= {tensor.name: name for tensor in shard}
    total = sum(tensor.num_bytes(dtype) for shard in shards for tensor in shard)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(directory / INDEX_FILE, index)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes an object as indented JSON."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _shards(
    tensors: Iterable[StoredTensor], dtype: np.dtype, max_shard_bytes: int
) -> list[list[StoredTensor]]:
    shards, used = [[]], 0
    for tensor in tensors:
        size = tensor.num_bytes(dtype)
        if shards[-1] and used + size > max_shard_bytes:
            shards.append([])
            used = 0
        shards[-1].append(tensor)
        used += size
    return shards


def _write_file(path: Path, tensors: list[StoredTensor], dtype: np.dtype) -> None:
    """Writes one safetensors file: header length, JSON header, then the tensors back to back."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        end = offset + tensor.num_bytes(dtype)
        header[tensor.name] = {
            "dtype": _CODES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            array = np.ascontiguousarray(tensor.compute().astype(dtype, copy=False))
            file.write(array.reshape(-1).view(np.uint8).data)


@contextlib.contextmanager
def new_directory(target: Path, *, needed_bytes: int) -> Iterator[Path]:
    """A directory to fill, which takes the name `target` only if the block ends without an error.

    Args:
      target: does not exist, or is empty.
      needed_bytes: refused at once where fewer are free.

    Raises:
      CheckpointError: there is something at `target`.
      OSError: the disk is full or cannot be written; nothing is left behind.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise CheckpointError(f"{target} exists already; remove it or choose another directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if free < needed_bytes:
        raise OSError(
            errno.ENOSPC, f"{target} needs {needed_bytes} bytes and its disk has {free} free"
        )
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        staged = Path(scratch) / target.name
        staged.mkdir()
        try:
            yield staged
        except OSError as error:
            free = shutil.disk_usage(target.parent).free
            raise OSError(
                error.errno, f"could not write {target} ({error}); its disk has {free} bytes free"
            ) from error
        staged.replace(target)
