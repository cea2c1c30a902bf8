"""The Model protocol and its adapters."""
