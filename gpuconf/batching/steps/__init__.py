"""One step of a training: gradients in parts, the update, and undoing what failed."""
