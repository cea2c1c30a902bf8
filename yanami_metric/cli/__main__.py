"""`python -m yanami_metric.cli`."""

from yanami_metric.cli import main

main()
