"""The output of commands: text, tables, pictures and JSON."""
