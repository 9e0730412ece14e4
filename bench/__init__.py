"""A benchmark of Fleet against stock `dspy.RLM`, all measured in one run and told as ratios."""
