-- What the retrieval paper's chain reads: head scores, utilities, answers to needles, what conditions differ by; published scores of heads.
CREATE TABLE head_scores_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "metric" TEXT, "checkpoint" TEXT, "layer" INTEGER, "head" INTEGER,
  "context_length" INTEGER, "depth" REAL, "seed" INTEGER, "score" REAL, "samples" INTEGER, "hits" INTEGER, "threshold" REAL,
  "retrieval" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX head_scores_by_experiment ON head_scores_rows('e' || experiment);
CREATE VIEW head_scores AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "metric", "checkpoint", "layer", "head", "context_length", "depth", "seed", "score",
  "samples", "hits", "threshold", "retrieval" FROM head_scores_rows;

CREATE TABLE utilities_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "checkpoint" TEXT, "layer" INTEGER, "head" INTEGER, "dim" INTEGER,
  "utility" REAL,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX utilities_by_experiment ON utilities_rows('e' || experiment);
CREATE VIEW utilities AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "checkpoint", "layer", "head", "dim", "utility" FROM utilities_rows;

CREATE TABLE outcomes_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "condition" TEXT, "detector" TEXT, "control" TEXT, "draw" INTEGER,
  "dose" REAL, "coverage" REAL, "rank" INTEGER, "layer" INTEGER, "head" INTEGER, "checkpoint" TEXT, "context_length" INTEGER,
  "depth" REAL, "seed" INTEGER, "sample" INTEGER, "correct" BOOLEAN, "generated" TEXT,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX outcomes_by_experiment ON outcomes_rows('e' || experiment);
CREATE VIEW outcomes AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "condition", "detector", "control", "draw", "dose", "coverage", "rank", "layer", "head",
  "checkpoint", "context_length", "depth", "seed", "sample", "correct", "generated" FROM outcomes_rows;

CREATE TABLE needle_samples_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "context_length" INTEGER, "depth" REAL, "sample" INTEGER,
  "kept" BOOLEAN, "tokens" INTEGER, "needle_first" INTEGER, "needle_last" INTEGER, "realised_depth" REAL, "words" INTEGER,
  "code" TEXT,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX needle_samples_by_experiment ON needle_samples_rows('e' || experiment);
CREATE VIEW needle_samples AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "context_length", "depth", "sample", "kept", "tokens", "needle_first",
  "needle_last", "realised_depth", "words", "code" FROM needle_samples_rows;

CREATE TABLE comparisons_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "condition" TEXT, "against" TEXT, "detector" TEXT, "control" TEXT,
  "draw" INTEGER, "dose" REAL, "coverage" REAL, "layer" INTEGER, "head" INTEGER, "context_length" INTEGER, "depth" REAL,
  "seed" INTEGER, "difference" REAL, "low" REAL, "high" REAL, "p" REAL, "only_condition" INTEGER, "only_against" INTEGER,
  "samples" INTEGER, "at_ceiling" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX comparisons_by_experiment ON comparisons_rows('e' || experiment);
CREATE VIEW comparisons AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "condition", "against", "detector", "control", "draw", "dose", "coverage", "layer", "head",
  "context_length", "depth", "seed", "difference", "low", "high", "p", "only_condition", "only_against", "samples", "at_ceiling" FROM comparisons_rows;

-- Registered by `ropelab heads import`. `content` is the file as it was given.
CREATE TABLE head_score_sets(
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  owner TEXT NOT NULL,
  registered_us INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY(name, sha256)
) WITHOUT ROWID;
