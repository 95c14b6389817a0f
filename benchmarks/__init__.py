"""What is measured: one script a subject, each with a function `measure`."""
