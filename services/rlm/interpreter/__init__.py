"""The DSPy code interpreter whose Python runs in a broker's sandbox."""
