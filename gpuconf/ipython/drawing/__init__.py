"""Values as HTML for notebooks: a module for each type, with `html_of` and `text_of`."""
