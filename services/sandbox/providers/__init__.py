"""Places where a sandbox can live, all behind one protocol."""
