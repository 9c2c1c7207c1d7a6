"""TensorFlow: its variables, its devices, and the guards around them, in the order they apply."""
