"""What an answer needs beside ranking: context, files, related chunks, several indexes, why not."""
