"""What several commands stand on, and `import gpuconf.auto` does not."""
