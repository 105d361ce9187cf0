"""`python -m oasis_harness` is `oasis`.

Python puts the folder it is started in first on the path of modules; it is taken off before anything is imported, so
that a `typer.py` or `json.py` lying there is not run. Python itself has looked for its own modules there by then: where
a folder is not trusted, the command `oasis` (or `python -P -m`) is the one to use.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from oasis_harness.cli.main import main

main()
