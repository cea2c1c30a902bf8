"""YANAMI as an evaluation module: what `evaluate.load("yanami")` finds. All of it is in the package `yanami`."""

import evaluate  # noqa: F401 - evaluate reads the imports of this file to know what must be installed

import yanami_metric.metric


class Yanami(yanami_metric.metric.Yanami):
    """See `yanami_metric.metric.Yanami`."""
