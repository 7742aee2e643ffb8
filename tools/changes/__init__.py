"""What calls change: foreseen, journalled, committed from a layer or found by a scan, taken back."""
