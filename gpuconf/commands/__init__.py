"""What `gpuconf` does on the command line: a folder for each command, named as users type it."""
