"""The checks of `fleet doctor`, each a real use of the part that it checks."""
