"""One child from its task to its outcome, and the clean-up of its sandbox."""
