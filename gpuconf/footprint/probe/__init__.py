"""The probe: a child process that makes a few real steps and tells what they took."""
