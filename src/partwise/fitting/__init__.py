"""How a model is fitted: stages, searches for sizes, calibration, streams, checkpoints."""
