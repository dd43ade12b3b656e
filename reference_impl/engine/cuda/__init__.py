"""The decode step in kernels of our own and CUDA graphs: what ``reference.graphs=full_step`` runs.

``step.py`` is the frame, kernel by kernel; ``batch.py`` gives it the interface of
:class:`reference_impl.engine.decode_batch.DecodeBatch`. The kernels: ``linear.py`` and ``few_rows.py``
(products), ``attention.py``, ``drawing.py``; ``tiles.py`` says how the work of a product is
cut. ``prefill.py``: prompts. ``audio.py``, ``code2wav.py``, ``convolution.py``, ``window.py``:
Code2Wav. ``gating.py`` belongs to the last two.

Needs CUDA and Triton 3.6 or later. The first start on a machine compiles about a hundred kernels,
one to two minutes; they are kept in Triton's cache on disk.
"""
