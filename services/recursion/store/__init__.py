"""The recursion service's database: the only place of it with SQL."""
