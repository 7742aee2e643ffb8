"""Hands: the tools a model can call, and the one guard every call passes. Imports only `state`."""
