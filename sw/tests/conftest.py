"""That this file is here puts its folder on the path: tests may share helpers across folders.

For example, ``from frontend.tflite_builder import Builder``.
"""
