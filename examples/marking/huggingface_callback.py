# SPDX-License-Identifier: Apache-2.0
"""Marks the steps of a Hugging Face Trainer:

    from huggingface_callback import MarkSteps
    trainer = Trainer(..., callbacks=[MarkSteps()])

    triplepoint record -- torchrun --nproc-per-node 8 train.py

A step is one optimizer step, with all its accumulated microbatches. See docs/measure/recording.md.
"""
import triplepoint

try:
    from transformers import TrainerCallback
except ImportError:  # so that a script may import this everywhere
    TrainerCallback = object


class MarkSteps(TrainerCallback):
    """Steps with the samples in them, and the loss whenever the Trainer logs it."""

    def __init__(self):
        self.number = None  # the Trainer counts up before it calls on_step_end

    def on_step_begin(self, args, state, control, **_):
        self.number = state.global_step
        triplepoint.step_begin(self.number)

    def on_step_end(self, args, state, control, **_):
        triplepoint.value("samples", args.train_batch_size * args.gradient_accumulation_steps)  # this rank's
        triplepoint.step_end(self.number)

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "loss" in logs:
            triplepoint.value("loss", logs["loss"])
