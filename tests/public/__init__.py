"""Public training scripts: `rehearse` and `estimate` judged by runs to the end. See README.md."""
