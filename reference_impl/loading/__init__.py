"""From a checkpoint on disk, released or ours, to the model's weights."""
