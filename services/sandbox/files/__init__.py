"""Files that go into sandboxes and come out of them."""
