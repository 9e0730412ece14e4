"""The budget as the harness sees it: dimensions, reservations and the gates that grant them."""
