"""A person with the README: its first experiment, its SQL, and the example of every --help, executed as written."""

import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest

from digit_model import write_digit_model
from harness import BIN, SOURCE, Process

README = (SOURCE / "README.md").read_text()
NEAR = re.search(r"cat near\.textproto\n(.*?)    \$ ", README, re.S).group(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Person(unittest.TestCase):
    """A folder that looks like the checkout, with quickstart's model, on a port of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-user-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "build/release/bin").symlink_to(BIN)
        (self.folder / "studies").symlink_to(SOURCE / "studies")
        (self.folder / "home").mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = dict(os.environ, HOME=str(self.folder / "home"), ROPELAB_SERVER=self.address,
                                PATH=f"{BIN}:{os.environ['PATH']}")
        flags = re.search(r'worker" plant --out "\$place/models/planted" (.*?)"\$\{slashes', (SOURCE / "quickstart").read_text(), re.S)
        planted = re.search(r"planted=\((.*?)\)", (SOURCE / "quickstart").read_text()).group(1).split()
        slashes = " ".join(f"--slash {slash}" for slash in planted)
        self.run_line(f"ropelab-worker plant --out build/quickstart/models/planted {flags.group(1).replace(chr(92), ' ')} {slashes}"
                      .replace("\n", " "))
        (self.folder / "near.textproto").write_text(NEAR)

    def run_line(self, line, expect=0):
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=50,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, f"{line}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def up(self, line):
        """Runs an `up` line until the test ends; returns when its worker is there."""
        process = Process("up", ["bash", "-c", f"cd '{self.folder}' && exec {line}"], self.folder)
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.addCleanup(process.stop)
        process.wait_for("ropelab is up")
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if json.loads(self.run_line("ropelab models --json")):
                return process
            time.sleep(0.1)
        self.fail(f"no worker came:\n{process.tail()}")

    def examples(self, command):
        """Lines of the example in a command's help, continued lines joined."""
        text = self.run_line(f"{command} --help").replace("\\\n", " ")
        lines = []
        for line in re.findall(r"(?:^|: )\s*((?:ropelab|ropelab-server|ropelab-worker) [^:\n]*(?::[^ \n][^\n]*)*)$", text, re.M):
            line = line.strip()
            if "[OPTIONS]" not in line and "COMMAND" not in line and "Usage" not in line:
                lines.append(line)
        self.assertTrue(lines, f"{command} --help has no example:\n{text}")
        return lines


class ReadmeTest(Person):
    def test_the_first_experiment_finds_the_near_heads(self):
        up = re.search(r"^    (build/release/bin/ropelab up .*)$", README, re.M).group(1)
        self.up(up)
        lines = re.findall(r"^    \$ (build/release/bin/ropelab .*)$", README, re.M)
        self.assertEqual(len(lines), 4)
        output = {line: self.run_line(line) for line in lines}
        self.assertEqual(output[lines[0]].split(), ["e1"])
        table = [row.split() for row in output[lines[1]].splitlines()]
        heading = next(row for row in table if "best_offset" in row)
        heads = [dict(zip(heading, row)) for row in table if row[-1] == "true"]
        self.assertEqual([(row["layer"], row["head"], row["best_offset"]) for row in heads], [("0", "3", "1"), ("1", "6", "3")])
        self.assertEqual(len((self.folder / "scores.csv").read_text().splitlines()), 1 + 2 * 8 * 5)
        query = re.search(r'"(SELECT .*? dominant)"', README).group(1)
        database = sqlite3.connect(f"file:{self.folder / 'ropelab-data/ropelab.db'}?mode=ro", uri=True)
        self.assertEqual([row[:3] for row in database.execute(query)], [(0, 3, 1), (1, 6, 3)])
        database.close()

    def test_the_specs_of_the_pages_are_accepted(self):
        models = self.folder / "build/quickstart/models"
        for i, name in enumerate(("needle-tiny", "needle-tiny-0100", "needle-tiny-0200", "needle-tiny-0400")):
            write_digit_model(models / name, i, seed=i, positions=2048, layers=4, heads=8)
        self.up(re.search(r"^    (build/release/bin/ropelab up .*)$", README, re.M).group(1))
        runs = re.search(r"## What it runs today\n(.*?)\n## ", README, re.S).group(1)
        kinds = [kind for cell in re.findall(r"^\| (`.*?`) \|", runs, re.M) for kind in re.findall(r"`(\w+)`", cell)]
        self.assertTrue({"slash_detection", "dose_sweep"} <= set(kinds), kinds)
        specs = [re.search(r"\*\*A spec\.\*\*\n\n((?:    .*\n|\n)+)", (SOURCE / f"docs/experiments/{kind}.md").read_text()).group(1)
                 for kind in kinds]
        edits = (SOURCE / "docs/experiments/inspection.md").read_text()
        specs.append(re.search(r"With edits, .*\n\n((?:    .*\n)+)", edits).group(1))
        language = (SOURCE / "docs/specs.md").read_text()
        for title in ("An experiment", "A study", "The same in JSON"):
            specs.append(re.search(rf"## {title}\n\n((?:    .*\n|\n)+)", language).group(1))
        for spec in specs:
            with self.subTest(spec=spec):
                # The planted model where a page names one that is not here.
                text = re.sub(r'^(    model:) "([^"]+)"', lambda line: line[0] if (models / line[2]).is_dir() else line[1] + ' "planted"', spec,
                              flags=re.M)
                (self.folder / "page.spec").write_text(text)
                self.run_line("ropelab validate - < page.spec")

    def test_its_links_lead_somewhere(self):
        pages = [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")]
        for page in pages:
            for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page.name} links to {target}")

    def test_files_that_the_architecture_names_exist(self):
        text = (SOURCE / "docs/architecture.md").read_text()
        for name in re.findall(r"`((?:client|server|worker|common|proto|tests|migrations)/[\w/.]+)`", text):
            self.assertTrue((SOURCE / name).exists(), name)


class HelpTest(Person):
    def test_examples_of_the_client_run(self):
        shutil.copytree(self.folder / "build/quickstart/models", self.folder / "home/models")
        (up,) = self.examples("ropelab up")
        self.up(up)
        (submit,) = self.examples("ropelab submit")
        self.assertEqual(self.run_line(submit).split(), ["s1", "e1", "e2"])
        (self.folder / "geometry.textproto").write_text("rope_geometry { positions: 16 }\n")
        self.run_line("ropelab submit geometry.textproto --wait")
        for command in ("watch", "list", "show", "results", "provenance", "models", "workers", "validate"):
            for line in self.examples(f"ropelab {command}"):
                with self.subTest(line=line):
                    self.run_line(line)
        # An experiment that cannot end by itself before it is cancelled.
        long = NEAR.replace("count: 16 tokens: 1024", "count: 4096 tokens: 4096")
        (self.folder / "long.textproto").write_text(long)
        self.assertEqual(self.run_line("ropelab submit long.textproto").split(), ["e4"])
        one, study = self.examples("ropelab cancel")
        self.assertIn("cancelled", self.run_line(one))
        two = "".join(f"experiments {{ {long.replace('who looks', name)} }}\n" for name in ("a", "b"))
        (self.folder / "study.textproto").write_text(f'name: "two" {two}')
        number = self.run_line("ropelab submit study.textproto").split()[0]
        self.assertIn("cancelled 2 of 2", self.run_line(study.replace("s1", number)))

    def test_examples_of_the_tools_run(self):
        for command in ("inspect", "plant", "numerics"):
            for line in self.examples(f"ropelab-worker {command}"):
                with self.subTest(line=line):
                    self.run_line(line)
        self.assertTrue((self.folder / "tensors.safetensors").is_file())

    def test_every_command_that_the_help_lists_has_an_example(self):
        listed = re.search(r"Subcommands:\n(.*?)\n\n", self.run_line("ropelab --help"), re.S).group(1)
        commands = re.findall(r"^  (\w+)", listed, re.M)
        self.assertIn("provenance", commands)
        for command in commands:
            with self.subTest(command=command):
                self.examples(f"ropelab {command}")


if __name__ == "__main__":
    unittest.main()
