"""What a run says beyond its scores, each analysis a pure function from tallies to a `Finding`.

`turns`: first and last turn, and the curve over turns. `modes`: what a history is worth. `gap`: what is understood and
not drawn. `checks`: by capability and kind, and how errors go on. `loading` reads runs, `writing` turns a finding into
files.
"""
