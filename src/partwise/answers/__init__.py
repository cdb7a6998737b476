"""What a fitted model says about rows, columns and cells."""
