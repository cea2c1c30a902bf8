"""yanami_dataset: what a dialogue is, and every way in and out of storage."""

__version__ = "0.1.0"
