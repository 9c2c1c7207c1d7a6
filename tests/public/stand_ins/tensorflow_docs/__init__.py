"""In place of `tensorflow_docs`, of which a notebook shows a film."""
