"""`gpuconf doctor`: what is wrong with this machine, and the command that mends it."""
