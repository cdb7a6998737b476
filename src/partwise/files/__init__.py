"""Files of every kind: what is written and read, and the check of what was read."""
