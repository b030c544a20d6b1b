-- What out-of-distribution prompts leave of each head's slash; `outlier`: outside the quartiles by more than 1.5 times their distance.
CREATE TABLE ood_ratios_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "layer" INTEGER, "head" INTEGER, "offset" INTEGER,
  "score_id" REAL, "score_ood" REAL, "ratio" REAL, "outlier" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX ood_ratios_by_experiment ON ood_ratios_rows('e' || experiment);
CREATE VIEW ood_ratios AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "layer", "head", "offset", "score_id", "score_ood", "ratio", "outlier"
  FROM ood_ratios_rows;
