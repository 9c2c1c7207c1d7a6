"""What several commands are built on, but `import gpuconf.auto` is not."""
