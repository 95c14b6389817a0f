"""A disk that fills up in the middle of a file."""

import contextlib
import resource
from collections.abc import Iterator


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
