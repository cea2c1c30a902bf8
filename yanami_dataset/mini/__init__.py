"""The mini bench: scenes of coloured shapes, drawn by the package itself, whose state is known exactly (ours)."""
