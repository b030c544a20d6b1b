-- Spectra, alignment and norms of rank_analysis; fits and removals of frequency_analysis; conditions of low_rank.
CREATE TABLE spectra_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "matrix" TEXT, "layer" INTEGER, "head" INTEGER,
  "r1" REAL, "rank" REAL, "prompts" INTEGER, "dominant" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX spectra_by_experiment ON spectra_rows('e' || experiment);
CREATE VIEW spectra AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "matrix", "layer", "head", "r1", "rank", "prompts", "dominant" FROM spectra_rows;

CREATE TABLE alignment_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "matrix" TEXT, "layer" INTEGER, "head" INTEGER,
  "r1" REAL, "rank" REAL, "rv" REAL, "rv_random_median" REAL, "rv_random_q1" REAL, "rv_random_q3" REAL, "bias_ratio" REAL,
  "mean_norm" REAL, "bias_norm" REAL, "dominant" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX alignment_by_experiment ON alignment_rows('e' || experiment);
CREATE VIEW alignment AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "matrix", "layer", "head", "r1", "rank", "rv", "rv_random_median", "rv_random_q1",
  "rv_random_q3", "bias_ratio", "mean_norm", "bias_norm", "dominant" FROM alignment_rows;

CREATE TABLE norms_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "side" TEXT, "layer" INTEGER, "head" INTEGER, "rv" REAL,
  "dominant" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX norms_by_experiment ON norms_rows('e' || experiment);
CREATE VIEW norms AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "side", "layer", "head", "rv", "dominant" FROM norms_rows;

CREATE TABLE fits_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "layer" INTEGER, "head" INTEGER, "offset" INTEGER, "r2" REAL,
  "r2_centred" REAL, "eta2" REAL, "prompts" INTEGER,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX fits_by_experiment ON fits_rows('e' || experiment);
CREATE VIEW fits AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "layer", "head", "offset", "r2", "r2_centred", "eta2", "prompts" FROM fits_rows;

CREATE TABLE removal_ratios_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "layer" INTEGER, "head" INTEGER, "offset" INTEGER,
  "band" TEXT, "removed" TEXT, "score" REAL, "score_removed" REAL, "ratio" REAL,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX removal_ratios_by_experiment ON removal_ratios_rows('e' || experiment);
CREATE VIEW removal_ratios AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "layer", "head", "offset", "band", "removed", "score", "score_removed", "ratio"
  FROM removal_ratios_rows;

CREATE TABLE conditions_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "condition" TEXT, "detector" TEXT, "control" TEXT,
  "draw" INTEGER, "target" TEXT, "stage" TEXT, "positions" TEXT, "heads" INTEGER, "dims" INTEGER, "dose" REAL, "coverage" REAL,
  "rank" INTEGER, "layer" INTEGER, "head" INTEGER, "context_length" INTEGER, "depth" REAL, "accuracy" REAL, "samples" INTEGER,
  "perplexity" REAL, "saved_parameters" INTEGER,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX conditions_by_experiment ON conditions_rows('e' || experiment);
CREATE VIEW conditions AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "condition", "detector", "control", "draw", "target", "stage", "positions", "heads",
  "dims", "dose", "coverage", "rank", "layer", "head", "context_length", "depth", "accuracy", "samples", "perplexity",
  "saved_parameters" FROM conditions_rows;

-- A frequency analysis has its pairs per seed; a geometry run has none.
DROP VIEW frequencies;
ALTER TABLE frequencies_rows ADD COLUMN "seed" INTEGER;
CREATE VIEW frequencies AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "layer", "head", "pair", "theta", "amplitude", "phase", "mean_inp", "mean_abs_inp",
  "inp_at_lag", "std_inp", "active" FROM frequencies_rows;
