"""What tests, benches and scripts share; no part of the package that users install."""
