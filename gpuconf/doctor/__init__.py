"""`gpuconf doctor`: what is wrong with this machine, and the command that fixes it."""

# For all of --probe.  TensorFlow starts in 5 to 10 s, and on a slow network disk in a minute.
PROBE_TIMEOUT_S = 120.0
