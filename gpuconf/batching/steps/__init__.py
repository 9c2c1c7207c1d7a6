"""One training step: gradients in parts, the update, and undoing a failed step."""
