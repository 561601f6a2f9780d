"""What commands print, where that takes more than a few lines."""
