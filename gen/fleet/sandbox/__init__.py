"""Generated from `protos/`; see `protos/generate.py`."""
