"""Questions about tables: what is asked, and the programs that compute it."""
