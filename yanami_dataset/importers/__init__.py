"""One file per source format: `read(path) -> Iterator[Dialogue]`."""
