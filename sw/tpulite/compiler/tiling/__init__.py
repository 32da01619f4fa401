"""Where images are, and commands without addresses: how each kind of layer is computed."""
