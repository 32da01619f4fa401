"""Small changes of compiled programs, and who notices them."""
