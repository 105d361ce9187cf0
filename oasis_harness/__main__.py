"""`python -m oasis_harness` is `oasis`."""

from oasis_harness.cli.main import main

main()
