# SPDX-License-Identifier: Apache-2.0
"""The Python package says what the program says, to the bit, and behaves as Python does.

    package_test.py FOLDER_OF_PACKAGE PROGRAM SOURCE_TREE
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PACKAGE, PROGRAM, TREE = (os.path.abspath(word) for word in sys.argv[1:4])
sys.path.insert(0, PACKAGE)
import triplepoint as tp  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

LLAMA = {"model": "llama3-70b", "cluster": "dgx-h100", "nodes": 16, "tp": 8, "pp": 4, "gbs": 512, "sequence_parallel": True}


def program(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)


def words_of(flags):
    """The arguments as one would type them."""
    words = []
    for name, value in flags.items():
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


def help_flags(command):
    """The first long name of every flag of a command, as its help has them."""
    return set(re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", program(command, "--help").stdout, re.M))


class Numbers(unittest.TestCase):
    def equal(self, job_flags, simulate_flags=None):
        said = program("simulate", *words_of({**job_flags, **(simulate_flags or {})}), "--format", "json")
        self.assertEqual(said.returncode, 0, said.stderr)
        run = tp.simulate(tp.Job(**job_flags), **(simulate_flags or {}))
        self.assertEqual(run.results, json.loads(said.stdout))
        return run

    def test_a_simulation_is_that_of_the_program_to_the_bit(self):
        run = self.equal(LLAMA)
        self.assertEqual(run.step_time_s, run.results["step_time_s"])
        self.assertEqual(run.power_mean_w, run.results["power_w"]["mean"])
        self.assertEqual(run.step_time_interval_s, (run.results["step_time_low_s"], run.results["step_time_high_s"]))

    def test_so_are_other_jobs_and_what_is_asked_of_them(self):
        self.equal({**LLAMA, "power_limit": "550 W", "ambient": "33 C", "recompute": "selective", "sequence_parallel": True})
        self.equal({"model": "mixtral-8x7b", "cluster": "hgx-h200", "nodes": 4, "tp": 2, "ep": 4, "overlap": "dp,pp"})
        self.equal({"model": "gpt3-175b", "cluster": "hgx-h100"})  # does not fit
        self.equal(LLAMA, {"duration": "2min", "fault": "gpu=3,power=0.5", "tokens": "15T", "power_profile": True})

    def test_plain_numbers_have_the_unit_of_their_flag(self):
        self.assertEqual(tp.Job(**LLAMA, power_limit=550, ambient=33.5), tp.Job(**LLAMA, power_limit="550 W", ambient="33.5 C"))
        self.assertEqual(tp.Job(**LLAMA, layers_per_stage=[21, 19, 21, 19]), tp.Job(**LLAMA, layers_per_stage="21,19,21,19"))
        self.assertEqual(tp.Job(**{**{k: v for k, v in LLAMA.items() if k != "tp"}, "tensor_model_parallel_size": 8}), tp.Job(**LLAMA))

    def test_a_job_that_does_not_fit_is_a_run_with_its_memory(self):
        run = tp.simulate(tp.Job(model="gpt3-175b", cluster="hgx-h100"))
        self.assertEqual(run.verdict, "oom")
        self.assertIsNone(run.step_time_s)
        self.assertGreater(run.memory_total_gib, run.memory_limit_gib)

    def test_a_file_is_a_job_and_flags_go_on_top(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "job.toml")
            tp.Job(**LLAMA).save(file)
            self.assertEqual(tp.simulate(file).step_time_s, tp.simulate(tp.Job(**LLAMA)).step_time_s)
            self.assertEqual(tp.Job(file, tp=4).replace(tp=None).to_toml(), tp.Job(file).to_toml())

    def test_a_run_comes_back_from_its_file(self):
        run = tp.simulate(tp.Job(**LLAMA))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "job.run")
            run.save(file)
            again = tp.read(file)
        self.assertEqual(again.to_dict(), run.to_dict())
        self.assertEqual(again.job.to_toml(), run.job.to_toml())
        self.assertEqual(tp.simulate(again.job.replace(tp=4)).step_time_s, tp.simulate(tp.Job(**{**LLAMA, "tp": 4})).step_time_s)

    def test_the_text_is_the_programs(self):
        self.assertEqual(str(tp.simulate(tp.Job(**LLAMA))), program("simulate", *words_of(LLAMA)).stdout)


class Version(unittest.TestCase):
    def test_it_has_the_usual_name(self):
        self.assertIn(tp.__version__, tp.version())
        self.assertRegex(tp.__version__, r"^\d+\.\d+")


class Many(unittest.TestCase):
    def test_a_sweep_has_a_row_for_every_combination(self):
        job = tp.Job(**LLAMA)
        sweep = tp.sweep(job, tp=[2, 8, 7], power_limit=[500, 600], recompute="selective")
        self.assertEqual([(row["tp"], row["power_limit"]) for row in sweep],
                         [(2, 500), (2, 600), (8, 500), (8, 600), (7, 500), (7, 600)])
        self.assertEqual([row["verdict"] for row in sweep], ["oom", "oom", "ok", "ok", "invalid", "invalid"])
        self.assertIn("does not divide", sweep[4]["problem"])
        run = tp.simulate(job.replace(power_limit=600, recompute="selective"))
        self.assertEqual({name: sweep[3][name] for name in run.to_dict()}, run.to_dict())
        self.assertEqual(sweep.run(3).results, run.results)
        self.assertIs(sweep.best(), sweep[3])
        with self.assertRaisesRegex(tp.Error, "no column enrgy_j"):
            sweep.best("enrgy_j")
        self.assertEqual(len(sweep.to_dict()["mfu"]), 6)
        self.assertIn("<td>invalid</td>", sweep._repr_html_())

    def test_threads_change_no_bit(self):
        job = tp.Job(**LLAMA)
        self.assertEqual(tp.sweep(job, mbs=[1, 2], threads=1)._rows, tp.sweep(job, mbs=[1, 2], threads=4)._rows)

    def test_flags_of_the_simulation_can_be_varied_too(self):
        sweep = tp.sweep(tp.Job(**LLAMA), steps=[1, 2], fault="gpu=3,power=0.5")
        self.assertEqual([row["steps"] for row in sweep], [1, 2])
        self.assertEqual(sweep[0]["verdict"], "ok")

    def test_plans_are_those_of_the_program(self):
        flags = {"model": "llama3-8b", "cluster": "hgx-h200", "gbs": 64}
        asked = {"objective": "energy", "max_temperature": 75, "top": 3, "fix": {"mbs": 1, "pp": [1, 2]}}
        said = json.loads(program("plan", *words_of(flags), "--objective", "energy", "--max-temperature", "75 C", "--top", "3", "--fix",
                                  "mbs=1,pp=1|2", "--format", "json").stdout)
        del said["schema"]
        plans = tp.plan(tp.Job(**flags), **asked)
        self.assertEqual(plans.results, said)
        self.assertEqual(len(plans), 3)
        self.assertEqual(plans.best.step_time_s, said["plans"][0]["step_time_s"])
        self.assertEqual(plans[1].job.num_gpus, 8)
        again = tp.simulate(plans.best.job)
        self.assertEqual((again.step_time_s, again.energy_j), (plans.best.step_time_s, plans.best.energy_j))

    def test_every_flag_of_plan_is_an_argument(self):
        of_the_program = {"clocks", "slowdown", "explain", "output", "format", "help", "within", "budget"}
        known = {flag.flag[2:] for flags in (tp._many._plan_flags, tp._predict._job_flags) for flag in flags.all}
        self.assertLessEqual(help_flags("plan") - of_the_program, known)

    def test_a_limit_that_nothing_keeps_is_the_programs_sentence(self):
        flags = {"model": "llama3-8b", "cluster": "hgx-h200", "gbs": 64}
        with self.assertRaises(tp.Error) as raised:
            tp.plan(tp.Job(**flags), max_temperature=31, fix="mbs=1,pp=1")
        said = program("plan", *words_of(flags), "--max-temperature", "31 C", "--fix", "mbs=1,pp=1")
        self.assertIn(str(raised.exception), said.stderr)

    def test_runs_are_compared_as_the_program_does(self):
        job = tp.Job(**LLAMA)
        runs = [tp.simulate(job), tp.simulate(job.replace(power_limit=500))]
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("a.run", "b.run")]
            for run, file in zip(runs, files):
                run.save(file)
            text = program("compare", *files).stdout
            said = json.loads(program("compare", *files, "--format", "json").stdout)
            compared = tp.compare(*files, names=["a", "b"])
        self.assertEqual(str(compared), text)
        self.assertEqual({"schema": said["schema"], **compared.to_dict()}, said)
        self.assertEqual(len(tp.compare(*runs).sentences), len(compared.sentences))
        with self.assertRaisesRegex(tp.Error, "only one run"):
            tp.compare(runs[0])

    def test_own_runs_teach_what_with_predicts(self):
        with tempfile.TemporaryDirectory() as folder:
            job = tp.Job(model="llama2-7b", cluster="hgx-h100", tp=2, gbs=128)
            shipped = tp.simulate(job).step_time_s
            rows = os.path.join(folder, "rows.csv")
            with open(rows, "w") as file:
                file.write("row_id,family,model,cluster,cluster.num_nodes,stack,plan.tensor_parallel_size,plan.global_batch_size,step_time_s\n"
                           f"mine,mine,llama2-7b,hgx-h100,1,megatron-core,2,128,{1.3 * shipped}\n")
            learned = tp.calibrate(rows, output=os.path.join(folder, "own"))
            self.assertEqual(learned["runs"][0]["run"], "mine")
            self.assertIn("Learned from 1 run", learned["verdict"])
            own = tp.simulate(job.replace(with_=os.path.join(folder, "own"))).step_time_s
            self.assertTrue(1.1 * shipped < own < 1.4 * shipped, (shipped, own))
            with self.assertRaises(tp.Error):
                tp.calibrate(os.path.join(folder, "none.csv"), output=folder)

    def test_progress_is_a_line_that_says_how_long_yet(self):
        line = tp._progress.Progress("Simulating", False).line(52, 163, 5.2, 80)
        self.assertIn("52/163  10/s  11 s left", line)


class Arguments(unittest.TestCase):
    def test_every_flag_of_simulate_is_an_argument(self):
        of_the_program = {"output", "format", "threads", "help", "sweep"}  # Run.save, Run.results, sweep() and its cores, help()
        of_other_sources = {"like", "machine"}
        known = {flag.flag[2:] for flags in (tp._predict._job_flags, tp._predict._simulation_flags) for flag in flags.all}
        self.assertEqual(help_flags("simulate") - of_the_program - of_other_sources, known)

    def test_the_signature_and_the_help_have_them(self):
        import inspect
        self.assertIn("pp", inspect.signature(tp.Job).parameters)
        self.assertIn("power_limit: power limit of each device", " ".join(tp.Job.__doc__.split()))
        self.assertIn("duration", inspect.signature(tp.simulate).parameters)

    def test_a_wrong_name_or_type_is_a_type_error(self):
        for call, words in ((lambda: tp.Job(modle="x"), "did you mean model"), (lambda: tp.Job(fp8_attention=3), "switch"),
                            (lambda: tp.Job(tp=True), "tp takes int"), (lambda: tp.simulate(3), "a job is"),
                            (lambda: tp.Job(tp=1, tensor_model_parallel_size=1), "the same")):
            with self.assertRaisesRegex(TypeError, words):
                call()

    def test_other_mistakes_are_the_sentences_of_the_program(self):
        for flags in ({"model": "llama3-70", "cluster": "dgx-h100"}, {"model": "llama3-70b"}, {**LLAMA, "tp": 7},
                      {**LLAMA, "schedule": "2f2b"}, {**LLAMA, "power_limit": "600 C"}, {**LLAMA, "nodes": 0}):
            with self.assertRaises(tp.Error) as raised:
                tp.simulate(tp.Job(**flags))
            said = program("simulate", *words_of(flags))
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(str(raised.exception), said.stderr)
        with self.assertRaisesRegex(tp.Error, "no_such.run"):
            tp.read("no_such.run")


class Values(unittest.TestCase):
    def test_series_are_looked_at_and_not_copied(self):
        run = tp.simulate(tp.Job(**LLAMA), duration="1min")
        series = run.series("power_w", device=3)
        self.assertEqual(series.unit, "W")
        self.assertEqual(len(series), len(series.times_ns))
        view = memoryview(series.values)
        self.assertTrue(view.readonly)
        first = series[0]
        del run, series
        self.assertEqual(view[0], first)  # lives as long as someone looks

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_series_are_arrays(self):
        run = tp.simulate(tp.Job(**LLAMA), duration="1min")
        one, two = run.series("power_w"), run.series("power_w")
        self.assertEqual(one.values.__array_interface__["data"][0], two.values.__array_interface__["data"][0])
        self.assertEqual(one.values.dtype, numpy.float64)
        self.assertEqual(one.times_ns.dtype, numpy.int64)
        self.assertFalse(one.values.flags.writeable)
        self.assertEqual(float(numpy.mean(one)), float(one.values.mean()))

    def test_a_timeline_is_that_of_the_programs_tables(self):
        run = tp.simulate(tp.Job(**LLAMA))
        with tempfile.TemporaryDirectory() as folder:
            run.save(os.path.join(folder, "a.run"))
            done = program("export", os.path.join(folder, "a.run"), "--csv", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "spans.csv"), encoding="utf-8") as file:
                header, *rows = [line.rstrip("\n").split(",") for line, _ in zip(file, range(2000))]
        self.assertEqual(run.ranks, [0, 32, 64, 96])  # one of each tensor group and stage, and replicas are alike
        with self.assertRaisesRegex(tp.Error, "no rank 11 .* it has 0, 32, 64, 96"):
            run.timeline(11)
        timeline = run.timeline()
        self.assertEqual(sorted(timeline), sorted(header))
        for name in ("rank", "begin_ns", "end_ns", "name", "kind"):
            place = header.index(name)
            self.assertEqual([str(value) for value in list(timeline[name])[:len(rows)]], [row[place] for row in rows])

    def test_a_series_that_is_not_there_says_which_are(self):
        with self.assertRaisesRegex(tp.Error, "it has .*power_w"):
            tp.simulate(tp.Job(**LLAMA)).series("powre")


class Recording(unittest.TestCase):
    def recorded(self, body, **environment):
        """What a program prints that records itself, and what it says on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            code = f"import sys; sys.path.insert(0, {PACKAGE!r})\nimport time, triplepoint as tp\n{body}"
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout, done.stderr

    def test_marks_of_the_block_are_in_the_file_also_of_functions_decorated_before(self):
        said, summary = self.recorded("""
@tp.region("work")
def work():
    time.sleep(0.02)
with tp.record("own.run", warmup=1, steps="all") as rec:
    for number in range(5):
        with tp.step(number):
            work()
            tp.value("tokens", 100)
run = rec.run
timeline = run.timeline()
print(rec.file, run.origin, len([name for name in timeline["name"] if name == "work"]), run.step_time_s >= 0.02, run.tokens_per_s > 0)
print(run.series("cpu_user_s", of_node=True).unit)
""")
        self.assertEqual(said, "own.run measured 5 True True\ns\n")
        self.assertIn("4 measured after 1 of warm-up", summary)

    def test_a_second_recording_of_a_process_has_its_own_marks(self):
        said, summary = self.recorded("""
for name in ("one", "two"):
    with tp.record(name + ".run", warmup=0, quiet=True):
        with tp.step(0), tp.region(name):
            time.sleep(0.01)
    print(name, sorted(set(tp.read(name + ".run").timeline()["name"])))
""")
        self.assertEqual(said, "one ['one', 'step']\ntwo ['step', 'two']\n")
        self.assertEqual(summary, "")

    def test_an_exception_ends_the_recording_and_goes_on(self):
        said, _ = self.recorded("""
try:
    with tp.record("own.run", quiet=True) as rec:
        try:
            tp.record("other.run").__enter__()
        except tp.Error as problem:
            print(problem)
        raise ValueError("mine")
except ValueError as problem:
    print(problem, rec.run.origin)
""")
        self.assertIn("already being recorded", said)
        self.assertTrue(said.endswith("mine measured\n"))

    def test_every_flag_of_record_is_an_argument(self):
        known = {flag.flag[2:] for flag in sys.modules["triplepoint._record"]._record_flags.all} if tp.record else set()
        self.assertEqual(help_flags("record") - {"output", "strict", "help"}, known)
        with self.assertRaisesRegex(tp.Error, "1 ms is out of range"):
            tp.record("no.run", interval="1 ms").__enter__()


class Notebooks(unittest.TestCase):
    def test_a_run_shows_the_top_of_its_page(self):
        run = tp.simulate(tp.Job(**LLAMA))
        shown = run._repr_html_()
        for words in ("33.6 s", "exposed communication", "<polyline", "power of a GPU", "<li>"):
            self.assertIn(words, shown)
        self.assertLess(len(shown), 100_000)
        self.assertIn("Out of memory", tp.simulate(tp.Job(model="gpt3-175b", cluster="hgx-h100"))._repr_html_())

    def test_names_of_others_are_no_markup(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "job.toml")
            with open(file, "w", encoding="utf-8") as out:
                out.write('name = "<script>alert(1)</script>"\n' + tp.Job(**LLAMA).to_toml().split("\n", 1)[1])
            run = tp.simulate(file)
        self.assertNotIn("<script", run._repr_html_())
        self.assertNotIn("<script", tp.compare(run, run)._repr_html_())


class Manners(unittest.TestCase):
    def test_other_threads_go_on(self):
        turns, ended = [0], threading.Event()

        def count():
            while not ended.is_set():
                turns[0] += 1
                time.sleep(0.001)
        thread = threading.Thread(target=count)
        thread.start()
        before = turns[0]
        tp.simulate(tp.Job(**LLAMA), duration="30min")
        during = turns[0] - before
        ended.set()
        thread.join()
        self.assertGreater(during, 5)

    def test_an_interrupt_ends_a_long_call(self):
        code = f"""
import sys
sys.path.insert(0, {PACKAGE!r})
import triplepoint as tp
job = tp.Job(model="llama3-70b", cluster="dgx-h100", nodes=64, tp=8, pp=4, gbs=512, sequence_parallel=True)
print("begins", flush=True)
try:
    tp.simulate(job, duration="700h")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(0)
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "begins\n")
        time.sleep(0.3)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        said = child.stdout.read()
        child.wait()
        child.stdout.close()
        self.assertEqual(said, "interrupted\n")
        self.assertLess(time.monotonic() - begin, 10)

    def test_marks_need_nothing_that_is_compiled(self):
        code = "import triplepoint, sys; triplepoint.step(1); assert 'triplepoint._core' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.path.join(TREE, "python")}, check=True)

    def test_the_marks_alone_say_what_is_missing(self):
        code = """
import triplepoint
try:
    triplepoint.simulate
except ImportError as problem:
    print(problem)
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.path.join(TREE, "python")}, cwd="/",
                              capture_output=True, text=True)
        self.assertIn("needs the whole package", done.stdout)

    def test_names_are_listed(self):
        self.assertIn("pubmedqa", tp.names("records"))
        for name in tp.names("clusters"):
            self.assertIn(name, program("show", "clusters").stdout)
        self.assertIn("simulate", dir(tp))
        with self.assertRaisesRegex(tp.Error, "no \"fans\""):
            tp.names("fans")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
