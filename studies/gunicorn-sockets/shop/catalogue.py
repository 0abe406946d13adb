"""The catalogue's database: built from catalogue.sql by each worker when it starts.

The file is in the folder for temporary files and is deleted as soon as the worker has opened it, so
nothing is left over however the worker ends.
"""

import functools
import os
import sqlite3
import tempfile
from pathlib import Path


@functools.lru_cache(maxsize=None)
def path():
    """Returns the path of the database, which is built at the first call."""
    handle, name = tempfile.mkstemp(prefix="prony-shop-", suffix=".sqlite3")
    os.close(handle)
    script = (Path(__file__).parent / "catalogue.sql").read_text(encoding="utf-8")
    connection = sqlite3.connect(name)
    try:
        connection.executescript(script)
    finally:
        connection.close()
    return name


def forget_name():
    """Deletes the file; open connections can still read it."""
    os.unlink(path())
