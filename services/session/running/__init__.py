"""Running Turns: resident runtimes, the life of a Turn, the Root's tools, and recovery after a restart."""
