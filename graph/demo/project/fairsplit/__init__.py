"""Splits shared expenses fairly, to the cent."""
