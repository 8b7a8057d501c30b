# SPDX-License-Identifier: Apache-2.0
"""The module as programs use it: each case is a program of its own, its marks read back by `marks_dump`.

    triplepoint_test.py LIBRARY DUMP FOLDER_OF_EXAMPLES
"""
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def run(program, recorded=True, folder=None, **environment):
    """Runs a program; what it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, EXAMPLES]), **environment}
    environment.pop("TRIPLEPOINT_MARKS", None)
    if recorded:
        environment.setdefault("TRIPLEPOINT_MARK_LIBRARY", LIBRARY)
        environment["TRIPLEPOINT_MARKS"] = folder
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def marks(program, **environment):
    """The marks of a program, in order: dictionaries as `marks_dump` writes them."""
    with tempfile.TemporaryDirectory() as folder:
        run(program, folder=folder, **environment)
        said = subprocess.run([DUMP, folder], capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in said.splitlines()]


def brief(events):
    return [" ".join(str(e[k]) for k in ("kind", "name", "number") if e[k] not in ("", -1)) for e in events]


class Marks(unittest.TestCase):
    def test_blocks_arrive_in_order(self):
        events = marks("""
            import triplepoint
            with triplepoint.step(3):
                with triplepoint.region("forward"), triplepoint.region("attention"):
                    pass
                triplepoint.value("loss", 2.5)
            """)
        self.assertEqual(brief(events), ["step_begin 3", "region_begin forward", "region_begin attention",
                                         "region_end attention", "region_end forward", "value loss", "step_end 3"])
        self.assertEqual(events[5]["value"], 2.5)

    def test_a_decorated_function_is_a_region_at_each_call(self):
        events = marks("""
            import triplepoint
            @triplepoint.region("work")
            def work(n):
                "doc"
                return n if n == 0 else work(n - 1)
            assert work(1) == 0 and work.__name__ == "work" and work.__doc__ == "doc"
            """)
        self.assertEqual(brief(events), ["region_begin work", "region_begin work", "region_end work", "region_end work"])

    def test_a_region_ends_when_its_block_raises(self):
        events = marks("""
            import triplepoint
            try:
                with triplepoint.region("bad"):
                    raise ValueError
            except ValueError:
                pass
            """)
        self.assertEqual(brief(events), ["region_begin bad", "region_end bad"])

    def test_a_span_carries_its_amounts(self):
        span, = marks("""
            import triplepoint
            with triplepoint.span("all_reduce", "dp", bytes=1024) as span:
                span.flops = 7
            """)
        self.assertEqual((span["kind"], span["name"], span["group"], span["bytes"], span["flops"]),
                         ("span", "all_reduce", "dp", 1024, 7))
        self.assertGreaterEqual(span["end_ns"], span["begin_ns"])

    def test_children_by_fork_mark_on_their_own(self):
        events = marks("""
            import os, triplepoint
            triplepoint.value("parent", 1)
            child = os.fork()
            triplepoint.value("child" if child == 0 else "parent", 2)
            if child == 0: os._exit(0)
            os.waitpid(child, 0)
            """)
        by_process = {}
        for event in events:
            by_process.setdefault(event["process"], []).append(event["name"])
        self.assertEqual(sorted(by_process.values()), [["child"], ["parent", "parent"]])

    def test_the_rank_is_torchruns(self):
        event, = marks("import triplepoint; triplepoint.value('x', 1)", RANK="5", LOCAL_RANK="1", WORLD_SIZE="8")
        self.assertEqual((event["rank"], event["world_size"]), (5, 8))


class Nothing(unittest.TestCase):
    PROGRAM = """
        import triplepoint
        assert not triplepoint.marking()
        with triplepoint.step(1), triplepoint.region("r"), triplepoint.span("s", "g", 1, 2) as s:
            s.bytes = 1
        triplepoint.step_begin(); triplepoint.step_end(); triplepoint.value("v", 1)
        triplepoint.region_begin("r"); triplepoint.region_end()
        @triplepoint.region("f")
        def f(): return 1
        assert f() == 1
        print("fine")
        """

    def test_without_a_recorder(self):
        self.assertEqual(run(self.PROGRAM, recorded=False), "fine\n")

    def test_without_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(self.PROGRAM, folder=folder, TRIPLEPOINT_MARK_LIBRARY="/no/such.so"), "fine\n")
            self.assertEqual(os.listdir(folder), [])

    def test_without_the_folder(self):
        self.assertEqual(run(self.PROGRAM, folder="/no/such/folder"), "fine\n")


class Adapters(unittest.TestCase):
    """The examples, driven by small doubles of the frameworks they are for."""

    def test_all_import_without_their_frameworks(self):
        self.assertEqual(run("import huggingface_callback, megatron_steps, nemo_callback, pytorch_loop", recorded=False), "")

    def test_hugging_face_trainer(self):
        events = marks("""
            import sys, types
            fake = types.ModuleType("transformers")
            class TrainerCallback: pass
            fake.TrainerCallback = TrainerCallback
            sys.modules["transformers"] = fake
            from huggingface_callback import MarkSteps
            callback = MarkSteps()
            assert isinstance(callback, TrainerCallback)
            of = types.SimpleNamespace
            arguments = of(train_batch_size=4, gradient_accumulation_steps=2)
            state = of(global_step=10)
            callback.on_step_begin(arguments, state, None)
            state.global_step = 11
            callback.on_step_end(arguments, state, None)
            callback.on_log(arguments, state, None, logs={"loss": 1.5, "epoch": 1})
            """)
        self.assertEqual(brief(events), ["step_begin 10", "value samples", "step_end 10", "value loss"])
        self.assertEqual([e["value"] for e in events if e["kind"] == "value"], [8, 1.5])

    def test_megatron_train_step(self):
        events = marks("""
            import sys, types
            training = types.ModuleType("megatron.training.training")
            training.train_step = lambda forward_step, model: ({"lm loss": 3.0}, 0, 0)
            package = types.ModuleType("megatron.training")
            package.training = training
            arguments = types.SimpleNamespace(curr_iteration=41, global_batch_size=32, seq_length=128, world_size=4)
            package.get_args = lambda: arguments
            sys.modules.update({"megatron": types.ModuleType("megatron"), "megatron.training": package,
                                "megatron.training.training": training})
            import megatron_steps
            assert megatron_steps.install()
            assert training.train_step(None, None)[0] == {"lm loss": 3.0}
            arguments.curr_iteration = 42
            training.train_step(None, None)
            """)
        self.assertEqual(brief(events), ["step_begin 41", "value samples", "value tokens", "value loss", "step_end 41",
                                         "step_begin 42", "value samples", "value tokens", "value loss", "step_end 42"])
        self.assertEqual([e["value"] for e in events[1:4]], [8, 1024, 3.0])

    def test_nemo_callback(self):
        events = marks("""
            import types
            from nemo_callback import MarkSteps
            of = types.SimpleNamespace
            trainer = of(global_step=7, world_size=4)
            module = of(cfg={"global_batch_size": 16, "encoder_seq_length": 64})
            callback = MarkSteps()
            callback.on_train_batch_start(trainer, module, None, 7)
            callback.on_before_optimizer_step(trainer, module, None)
            trainer.global_step = 8
            callback.on_train_batch_end(trainer, module, {"loss": 2.0}, None, 7)
            """)
        self.assertEqual(brief(events), ["step_begin 7", "region_begin optimizer", "region_end optimizer",
                                         "value samples", "value tokens", "value loss", "step_end 7"])

    def test_pytorch_loop_runs_on_a_double_of_torch(self):
        events = marks("""
            import pytorch_loop
            class Loss:
                def backward(self): pass
                def item(self): return 0.5
            class Optimizer:
                def zero_grad(self): pass
                def step(self): pass
            pytorch_loop.train(model=lambda batch: Loss(), optimizer=Optimizer(), batches=[[1, 2], [3, 4]],
                               tokens_per_batch=2)
            """)
        step = ["region_begin forward", "region_end forward", "region_begin backward", "region_end backward",
                "region_begin optimizer", "region_end optimizer", "value tokens", "value loss"]
        self.assertEqual(brief(events), ["step_begin 0", *step, "step_end 0", "step_begin 1", *step, "step_end 1"])


if __name__ == "__main__":
    LIBRARY, DUMP, EXAMPLES = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
