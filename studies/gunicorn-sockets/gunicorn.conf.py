# gunicorn reads this file by itself, since it starts in this folder.

import sys

# The study's folder may be read-only, and stays as it is where it is not.
sys.dont_write_bytecode = True
