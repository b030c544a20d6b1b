"""Every row of a documented view equals its row in `ropelab results`, and a wide range keeps in SQL what it must."""

import re
import sqlite3
import unittest

from harness import FIXTURES, SOURCE, Lab, need_fixtures


def as_results_print(value, kind):
    if value is None:
        return ""
    if kind == "BOOLEAN":
        return "true" if value else "false"
    return "%.17g" % value if isinstance(value, float) else str(value)


BOOLEANS = {"reachable", "dominant", "active"}


class Columns(unittest.TestCase):
    def test_every_column_of_every_view_has_a_meaning(self):
        page = (SOURCE / "docs/tables.md").read_text()
        database = sqlite3.connect(":memory:")
        for migration in sorted((SOURCE / "migrations").glob("*.sql")):
            database.executescript(migration.read_text())
        # What is said of all tables and of `statistics` and `series`, and what stands in the table's own row.
        shared = set(re.findall(r"`(\w+)`", page[:page.index("## The tables of slash heads")]))
        views = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        self.assertGreater(len(views), 15)
        for view in views:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({view})")]
            own = re.search(rf"^\| `{view}` \| (.*) \|$", page, re.M)
            self.assertTrue(own or view in ("statistics", "series"), f"docs/tables.md lacks {view}")
            said = shared | set(re.findall(r"`(\w+)`", own.group(1) if own else ""))
            if view == "outcomes":  # "the same" as `conditions` has
                said |= set(re.findall(r"`(\w+)`", re.search(r"^\| `conditions` \| (.*) \|$", page, re.M).group(1)))
            elif view == "comparisons":
                said |= {"detector", "control", "draw", "dose", "coverage"}
            self.assertEqual([c for c in columns if c not in said], [], view)
        database.close()


class Views(unittest.TestCase):
    def setUp(self):
        need_fixtures()

    def check(self, lab, experiment, view, keys, whole):
        rows = lab.table(experiment, view)
        names = list(rows[0])
        by_key = {tuple(r[k] for k in keys): r for r in rows}
        self.assertEqual(len(by_key), len(rows), f"{view}: the key columns do not tell rows apart")
        cursor = lab.database().execute(f"SELECT * FROM {view} WHERE experiment = ?", (experiment,))
        columns = [c[0] for c in cursor.description]
        self.assertEqual(columns, ["experiment", *names], view)
        seen = 0
        for row in cursor:
            texts = {c: as_results_print(v, "BOOLEAN" if c in BOOLEANS else "") for c, v in zip(columns, row)}
            self.assertEqual(texts.pop("experiment"), experiment)
            self.assertEqual(texts, by_key[tuple(texts[k] for k in keys)])
            seen += 1
        self.assertGreater(seen, 0, view)
        if whole:
            self.assertEqual(seen, len(rows), view)
        print(f"{view}: {seen} rows of the view, {len(rows)} of results")
        return rows, seen

    def test_views_equal_results(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            near, far, geometry = lab.submit("""
                name: "views"
                experiments { name: "near" model: "stories260K" seeds: [42, 123]
                              slash_detection { prompts { uniform_tokens { count: 12 tokens: 128 bos: ALWAYS } } regime: SMALL } }
                experiments { name: "far" model: "stories260K"
                              slash_detection { prompts { uniform_tokens { count: 12 tokens: 512 bos: ALWAYS } } regime: LARGE } }
                experiments { name: "geometry" rope_geometry {} }""")
            slash_keys = ["model", "dtype", "numerics_class", "seed", "rows", "layer", "head", "offset"]
            head_keys = ["model", "dtype", "numerics_class", "seed", "layer", "head"]
            statistic_keys = ["name", "checkpoint", "detector", "threshold", "seed"]
            self.check(lab, near, "slash_scores", slash_keys, whole=True)
            rows, seen = self.check(lab, far, "slash_scores", slash_keys, whole=False)
            threshold = 6 / 512
            best = {(r["layer"], r["head"]): r["best_offset"] for r in lab.table(far, "slash_heads")}
            wanted = sum(1 for r in rows if float(r["score"]) >= threshold / 2 or best[r["layer"], r["head"]] == r["offset"])
            self.assertEqual(seen, wanted, "SQL holds the offsets at half the threshold or above, and each head's best")
            for experiment in near, far:
                self.check(lab, experiment, "slash_heads", head_keys, whole=True)
                self.check(lab, experiment, "statistics", statistic_keys, whole=True)
            self.check(lab, geometry, "frequencies", ["layer", "head", "pair"], whole=True)
            self.check(lab, geometry, "series", ["name", "x"], whole=True)
            self.check(lab, geometry, "statistics", statistic_keys, whole=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
