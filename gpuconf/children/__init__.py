"""Child processes: started, watched, ended with their families, and what they hand over."""
