"""The catalogue's database: built from catalogue.sql by each worker when it starts.

The file lies in the folder for temporary files and loses its name as soon as the worker has opened
it, so that nothing of it is left however the worker ends.
"""

import functools
import os
import sqlite3
import tempfile
from pathlib import Path


@functools.lru_cache(maxsize=None)
def path():
    """The database's path, built at the first call."""
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
    """Takes the file's name away; an open connection goes on reading it."""
    os.unlink(path())
