"""Ways of thinking behind one protocol; adding one is a file here and a line in the registry."""
