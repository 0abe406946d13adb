# gunicorn reads this file because it starts in this folder.

import sys

# Writes nothing into the study's folder, which may be read-only.
sys.dont_write_bytecode = True
