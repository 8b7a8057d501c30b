# SPDX-License-Identifier: Apache-2.0
"""Marks the steps of NeMo, and of anything else that PyTorch Lightning trains:

    from nemo_callback import MarkSteps
    trainer = Trainer(..., callbacks=[MarkSteps()])        # NeMo 1: MegatronTrainerBuilder(cfg).create_trainer(callbacks=[...])

    srun triplepoint record -- python megatron_gpt_pretraining.py ...

NeMo gives Lightning whole global batches, so that a batch is a step. See docs/measure/recording.md.
"""
import triplepoint

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError:  # so that a script may import this everywhere
        Callback = object


def _setting(module, name):
    configuration = getattr(module, "cfg", None)
    if configuration is None:
        return None
    return configuration.get(name) if hasattr(configuration, "get") else getattr(configuration, name, None)


class MarkSteps(Callback):
    """Steps with samples, tokens and loss; the optimizer's part of each as a region."""

    def __init__(self):
        self.number = None
        self.in_optimizer = False

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self.number = trainer.global_step
        triplepoint.step_begin(self.number)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *_):
        self.in_optimizer = True
        triplepoint.region_begin("optimizer")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        if self.in_optimizer:
            triplepoint.region_end("optimizer")
            self.in_optimizer = False
        self._mark_amounts(trainer, pl_module, outputs)
        triplepoint.step_end(self.number)
        self.number = None

    def _mark_amounts(self, trainer, module, outputs):
        if not triplepoint.marking():  # reading a loss waits for the GPU
            return
        samples, length = _setting(module, "global_batch_size"), _setting(module, "encoder_seq_length")
        if samples:  # this rank's share: tensor- and pipeline-parallel ranks work on the same ones
            share = samples / (getattr(trainer, "world_size", None) or 1)
            triplepoint.value("samples", share)
            if length:
                triplepoint.value("tokens", share * length)
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            triplepoint.value("loss", float(loss))
