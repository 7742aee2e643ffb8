"""Chat models: real endpoints by name, and the scripted one."""
