"""What tests of the compiler and of the golden machine share."""
