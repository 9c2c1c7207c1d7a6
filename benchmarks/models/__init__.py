"""The models of all programs here: what is trained, and what memory is estimated of.

``models.yaml`` lists them with their data, and ``registry`` reads it.  The other modules have the
functions that build them; only these import Keras.
"""
