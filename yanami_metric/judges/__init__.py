"""The Judge protocol and its backends."""
