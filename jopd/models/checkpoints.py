"""Decoders from and to Hugging Face directories: safetensors, config, tokenizer files.

Loading reads only what each device's shard needs, a bounded buffer at a time; saving holds one
tensor at a time. Neither ever holds the model on the host.
"""

import dataclasses
import functools
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoint_files import (
    CheckpointError,
    StoredTensor,
    TensorReader,
    new_directory,
    open_tensors,
    read_json,
    write_json,
    write_tensors,
)
from jopd.models.checkpoint_keys import (
    EMBEDDING,
    HEAD,
    TensorLayout,
    stored_shapes,
    tensor_layouts,
)
from jopd.models.checkpoint_shards import load_sharded
from jopd.models.decoder import abstract_params
from jopd.types import AnyArray, Params

_IGNORED = re.compile(r".*\.rotary_emb\.inv_freq")  # computed, but stored by old files
_HEAD_ROWS = 8192  # rows compared at a time

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)


def load_config(directory: Path) -> DecoderConfig:
    """The decoder that a checkpoint directory describes.

    Raises:
      CheckpointError: the directory is missing, is no checkpoint, or holds another architecture.
    """
    if not directory.is_dir():
        raise CheckpointError(
            f"{directory} is no directory; give a local Hugging Face checkpoint directory"
        )
    data = read_json(directory / "config.json")
    try:
        return DecoderConfig.from_hugging_face(data)
    except ValueError as error:
        raise CheckpointError(f"{directory / 'config.json'}: {error}") from error


def load_params(
    directory: Path,
    config: DecoderConfig,
    shardings: Params,
    dtype: Any,
    *,
    pad_vocab_to: int | None = None,
    buffer_bytes: int = 2**28,
) -> Params:
    """Reads the parameters of a checkpoint straight into their shards.

    Args:
      directory: holds `model.safetensors`, or an index and the files it names.
      config: what the files must hold; only `vocab_size` may differ, see `pad_vocab_to`.
      shardings: one sharding for all, or a tree of them (for the padded shapes, if padded).
      dtype: type of every parameter, whatever the type in the files.
      pad_vocab_to: rows that the embedding and the head shall have; those that the files lack are
        0. Without it the files must have `config.vocab_size` rows.
      buffer_bytes: so many bytes of a shard are on the host at once, at least one layer.

    Raises:
      CheckpointError: the files are missing or damaged, or do not hold what `config` says; every
        missing, unexpected, wrongly shaped and unreadable tensor is named.
    """
    rows = pad_vocab_to or config.vocab_size
    shapes = abstract_params(dataclasses.replace(config, vocab_size=rows), dtype)
    if isinstance(shardings, jax.sharding.Sharding):
        shardings = jax.tree.map(lambda _: shardings, shapes)
    with open_tensors(directory) as reader:
        stored_rows = _stored_rows(reader, config, pad_vocab_to)
        layouts = tensor_layouts(config, stored_rows=stored_rows)
        _check_tensors(directory, reader, layouts, config)

    def load(path: Any, shape: jax.ShapeDtypeStruct, sharding: Any) -> jax.Array:
        layout = layouts[jax.tree_util.keystr(path, simple=True, separator="/")]
        with open_tensors(directory) as reader:  # anew, so that pages already read are given back
            return load_sharded(reader, layout, shape, sharding, buffer_bytes=buffer_bytes)

    return jax.tree_util.tree_map_with_path(load, shapes, shardings)


def _stored_rows(reader: TensorReader, config: DecoderConfig, pad_vocab_to: int | None) -> int:
    """Vocabulary rows that the files must have: their own number where padding was asked for."""
    found = reader.shapes().get(EMBEDDING)
    if pad_vocab_to is None or not found:
        return config.vocab_size
    if found[0] > pad_vocab_to:
        raise CheckpointError(f"pad_vocab_to={pad_vocab_to} is below the {found[0]} stored rows")
    return found[0]


def _check_tensors(
    directory: Path,
    reader: TensorReader,
    layouts: Mapping[str, TensorLayout],
    config: DecoderConfig,
) -> None:
    expected, found = stored_shapes(layouts, config.num_layers), reader.shapes()
    problems = [f"missing: {name}" for name in sorted(expected.keys() - found.keys())]
    problems += [
        f"unexpected: {name}"
        for name in sorted(found.keys() - expected.keys())
        if not _IGNORED.fullmatch(name) and not (config.tie_embeddings and name == HEAD)
    ]
    shared = sorted(expected.keys() & found.keys())
    wrong = [name for name in shared if found[name] != expected[name]]
    problems += [f"wrong shape: {name} is {found[name]}, not {expected[name]}" for name in wrong]
    if EMBEDDING in wrong and found[EMBEDDING][1:] == expected[EMBEDDING][1:]:
        problems += [f"(pad_vocab_to={expected[EMBEDDING][0]} accepts fewer vocabulary rows)"]
    unreadable = reader.unreadable()
    problems += [
        f"not BF16, F16 or F32: {name} is {unreadable[name]}"
        for name in shared
        if name in unreadable
    ]
    if not problems and config.tie_embeddings and HEAD in found and not _is_tied(reader):
        problems = [f"{HEAD} differs from {EMBEDDING} although the config ties them"]
    if problems:
        lines = "\n  ".join(problems)
        raise CheckpointError(f"{directory} does not hold what its config says:\n  {lines}")


def _is_tied(reader: TensorReader) -> bool:
    """Whether the stored head equals the stored embedding."""
    shape = reader.shapes()[EMBEDDING]
    if reader.shapes()[HEAD] != shape:
        return False
    windows = [
        (slice(start, min(start + _HEAD_ROWS, shape[0])),)
        for start in range(0, shape[0], _HEAD_ROWS)
    ]
    return all(
        np.array_equal(reader.read(HEAD, rows), reader.read(EMBEDDING, rows)) for rows in windows
    )


def save_pretrained(
    directory: Path,
    params: Params,
    config: DecoderConfig,
    *,
    tokenizer_dir: Path | None,
    generation_config: Mapping[str, Any] | None,
    max_shard_bytes: int,
    base_config: Mapping[str, Any] | None = None,
    dtype: Any = None,
    documents: Mapping[str, str] | None = None,
) -> None:
    """Writes a directory that transformers loads; it appears whole or not at all.

    Args:
      directory: does not exist, or is empty.
      params: parameters of `config`, all addressable by this process.
      config: the decoder.
      tokenizer_dir: its tokenizer files are copied, or None for none.
      generation_config: content of `generation_config.json`, or None for none.
      max_shard_bytes: size limit of a safetensors file.
      base_config: `config.json` of the model that was trained. It is written again as it is, and if
        its vocabulary is smaller than `config.vocab_size`, the padding rows are cut off.
      dtype: type in the files; None keeps the type of the embedding.
      documents: further text files, by name.

    Raises:
      CheckpointError: the arguments contradict each other or `directory` is taken.
      OSError: the disk is full or cannot be written.
    """
    _check_params(params, config)
    dtype = np.dtype(params["embed"]["embedding"].dtype if dtype is None else dtype)
    content = config.to_hugging_face() if base_config is None else _as_base(base_config, config)
    content |= {"dtype": dtype.name, "torch_dtype": dtype.name}
    layouts = tensor_layouts(config, stored_rows=content["vocab_size"])
    tensors = list(_tensors_to_store(params, layouts, config.num_layers))
    needed = sum(tensor.num_bytes(dtype) for tensor in tensors)
    with new_directory(directory, needed_bytes=needed) as staged:
        write_json(staged / "config.json", content)
        if generation_config is not None:
            write_json(staged / "generation_config.json", dict(generation_config))
        for name, text in (documents or {}).items():
            (staged / name).write_text(text, encoding="utf-8")
        if tokenizer_dir is not None:
            _copy_tokenizer(tokenizer_dir, staged)
        write_tensors(staged, tensors, dtype, max_shard_bytes)


def _check_params(params: Params, config: DecoderConfig) -> None:
    expected = jax.tree.map(lambda leaf: leaf.shape, abstract_params(config))
    found = jax.tree.map(lambda leaf: tuple(leaf.shape), params)
    if found != expected:
        raise CheckpointError(f"the parameters are {found}, but their config means {expected}")


def _as_base(base_config: Mapping[str, Any], config: DecoderConfig) -> dict[str, Any]:
    """The base model's config, if it describes the same decoder."""
    base = DecoderConfig.from_hugging_face(base_config)
    if dataclasses.replace(base, vocab_size=config.vocab_size) != config:
        raise CheckpointError(f"base_config describes {base}, but the parameters are of {config}")
    if base.vocab_size > config.vocab_size:
        raise CheckpointError(
            f"base_config has {base.vocab_size} vocabulary rows, the parameters {config.vocab_size}"
        )
    return dict(base_config)


def _tensors_to_store(
    params: Params, layouts: Mapping[str, TensorLayout], num_layers: int
) -> Iterator[StoredTensor]:
    """Every tensor of the files, layer by layer, computed from its shards when asked for."""
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    whole = [(layouts[key], leaf) for key, leaf in leaves.items() if not layouts[key].stacked]
    stacks = [(layouts[key], leaf) for key, leaf in leaves.items() if layouts[key].stacked]
    for layout, leaf in whole:
        yield StoredTensor(
            name=layout.name,
            shape=layout.stored_shape(),
            compute=functools.partial(_stored, layout, leaf, None),
        )
    for layer in range(num_layers):
        for layout, leaf in stacks:
            yield StoredTensor(
                name=layout.name.format(layer=layer),
                shape=layout.stored_shape(),
                compute=functools.partial(_stored, layout, leaf, layer),
            )


def _stored(layout: TensorLayout, leaf: AnyArray, layer: int | None) -> np.ndarray:
    return layout.to_stored(np.asarray(leaf if layer is None else leaf[layer]))


def _copy_tokenizer(source: Path, target: Path) -> None:
    if not (source / "tokenizer_config.json").is_file():
        raise CheckpointError(f"{source} has no tokenizer_config.json; give a tokenizer directory")
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
