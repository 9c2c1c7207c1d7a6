"""`gpuconf doctor`: this machine's problems, and the command that fixes each of them."""

# For all of --probe.  TensorFlow starts in 5 to 10 s, or in a minute on a slow network disk.
PROBE_TIMEOUT_S = 120.0
