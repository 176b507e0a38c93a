"""Questions to the code graph: values in, values out, over the files of one moment."""
