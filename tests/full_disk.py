"""Disks that fill up."""

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def files_up_to(size_bytes: int) -> Iterator[None]:
    """No file of this process grows past `size_bytes` inside; a write past it fails.

    Hold it around the failing call only: the test runner's own output may be a longer file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def small_file_system(place: Path, *, size: str) -> Iterator[Path]:
    """A file system of so many bytes ("1m") at `place`; skips where that needs more rights."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
