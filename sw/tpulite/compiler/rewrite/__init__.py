"""Passes from layers to layers: other layers that compute the same in fewer cycles."""
