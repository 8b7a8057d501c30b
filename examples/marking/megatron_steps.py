# SPDX-License-Identifier: Apache-2.0
"""Marks the steps of Megatron-LM. In pretrain_gpt.py (or another pretrain_*.py), before `pretrain(...)`:

    import megatron_steps
    megatron_steps.install()

    triplepoint record -- torchrun --nproc-per-node 8 pretrain_gpt.py ...

Megatron-LM has no callbacks; this wraps megatron.training.training.train_step, whatever its arguments are.
A step includes the optimizer. See docs/measure/recording.md.
"""
import functools

import triplepoint


def _mark_amounts(arguments):
    """This rank's share: tensor- and pipeline-parallel ranks work on the same samples, and shares are added up."""
    samples = getattr(arguments, "global_batch_size", None)
    length = getattr(arguments, "seq_length", None)
    if not samples:
        return
    share = samples / (getattr(arguments, "world_size", None) or 1)
    triplepoint.value("samples", share)
    if length:
        triplepoint.value("tokens", share * length)


def _mark_loss(result):
    """train_step returns the losses first, as a dictionary; on ranks other than the last stage's it is empty."""
    losses = result[0] if isinstance(result, tuple) and result else None
    if isinstance(losses, dict) and "lm loss" in losses:
        triplepoint.value("loss", float(losses["lm loss"]))


def marked(train_step, get_args):
    """`train_step`, marked as a step. Not every version keeps the iteration's number: then it is counted."""
    count = 0

    @functools.wraps(train_step)
    def step(*positional, **named):
        nonlocal count
        arguments = get_args()
        number = getattr(arguments, "curr_iteration", None)
        with triplepoint.step(count if number is None else number):
            count += 1
            result = train_step(*positional, **named)
            if triplepoint.marking():  # reading a loss waits for the GPU
                _mark_amounts(arguments)
                _mark_loss(result)
        return result
    return step


def install():
    """Wraps the train_step of the Megatron-LM that is installed; False where there is none."""
    try:
        from megatron.training import get_args, training
    except ImportError:
        return False
    training.train_step = marked(training.train_step, get_args)
    return True
