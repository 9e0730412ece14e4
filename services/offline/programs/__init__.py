"""Text of the programs that the offline model writes for the REPL.

Pieces are ordinary functions of this package: their source is copied into programs, so that what runs in the sandbox
is type-checked and tested here.
"""
