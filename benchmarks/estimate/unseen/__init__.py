"""Models nobody looked at while the estimate was tuned; half of them may be learnt from."""
