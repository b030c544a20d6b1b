-- The first schema. page_size 8192, auto_vacuum INCREMENTAL and WAL are set when the file is made (connection.cc).
-- Times are UTC microseconds, hashes lower-case hex. A text that is not there is '' unless the column may be NULL.

CREATE TABLE meta(
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta(name, value) VALUES('session_epoch', 0), ('space_probe', 0);

CREATE TABLE users(
  name TEXT PRIMARY KEY,
  role TEXT NOT NULL DEFAULT 'submitter' CHECK(role IN ('viewer', 'submitter', 'worker', 'admin')),
  weight REAL NOT NULL DEFAULT 1 CHECK(weight > 0),
  created_us INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE audit(
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  user TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL
);

CREATE TABLE numerics_classes(
  hash TEXT PRIMARY KEY,
  ingredients TEXT NOT NULL,  -- a line each
  first_seen_us INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE workers(
  id TEXT PRIMARY KEY,
  incarnation TEXT NOT NULL,
  build TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  device_name TEXT NOT NULL,
  device_memory_bytes INTEGER NOT NULL,
  numerics_class TEXT NOT NULL,
  labels TEXT NOT NULL,  -- a line each
  session_epoch INTEGER NOT NULL,
  first_seen_us INTEGER NOT NULL,
  last_seen_us INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE models(
  name TEXT NOT NULL,
  config_hash TEXT NOT NULL,
  weights_hash TEXT NOT NULL,  -- '' until a worker computed it
  bytes INTEGER NOT NULL,
  last_seen_us INTEGER NOT NULL,
  last_worker TEXT NOT NULL,
  announcement BLOB NOT NULL,  -- ropelab.v1.ModelAnnouncement
  PRIMARY KEY(name, config_hash, weights_hash)
) WITHOUT ROWID;

CREATE TABLE corpora(
  name TEXT PRIMARY KEY,
  sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  path TEXT NOT NULL,
  registered_us INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE studies(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  owner TEXT NOT NULL,
  name TEXT NOT NULL
);

CREATE TABLE experiments(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  study INTEGER REFERENCES studies(id),
  owner TEXT NOT NULL,
  owner_verified INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK(state IN ('waiting', 'queued', 'running', 'reducing', 'done', 'failed', 'cancelled')),
  reason TEXT NOT NULL,
  priority TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  numerics_class TEXT,  -- NULL until pinned
  result_digest TEXT NOT NULL DEFAULT '',
  submitted_us INTEGER NOT NULL,
  started_us INTEGER NOT NULL DEFAULT 0,
  finished_us INTEGER NOT NULL DEFAULT 0,
  models TEXT NOT NULL,    -- name@weights_hash, a line each
  tags TEXT NOT NULL,      -- a line each
  warnings TEXT NOT NULL,  -- a line each
  spec BLOB NOT NULL,       -- ropelab.v1.ExperimentSpec, resolved
  typed_spec BLOB NOT NULL  -- as submitted; the two are last so that lists never read them
);
CREATE INDEX experiments_of_study ON experiments(study) WHERE study IS NOT NULL;
CREATE INDEX unfinished_experiments ON experiments(id) WHERE state NOT IN ('done', 'failed', 'cancelled');

-- A submission's ids are consecutive: it is inserted in one transaction of the one writer.
CREATE TABLE requests(
  owner TEXT NOT NULL,
  request_id TEXT NOT NULL,
  submission_hash TEXT NOT NULL,
  study INTEGER,
  first_experiment INTEGER NOT NULL,
  experiments INTEGER NOT NULL,
  PRIMARY KEY(owner, request_id)
) WITHOUT ROWID;

CREATE TABLE stages(
  experiment INTEGER NOT NULL REFERENCES experiments(id),
  stage INTEGER NOT NULL CHECK(stage >= 1),
  state TEXT NOT NULL CHECK(state IN ('planning', 'running', 'complete')),
  inputs_digest TEXT NOT NULL,
  plan_digest TEXT NOT NULL DEFAULT '',
  tasks INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(experiment, stage)
) WITHOUT ROWID;

-- What a task measures, named by its key. Apart from tasks, because an update of a row rewrites all of it.
CREATE TABLE measurements(
  key TEXT NOT NULL UNIQUE,
  body BLOB,  -- ropelab.v1.Measurement; NULL: in the file
  file TEXT,  -- sha256 of an artifact file
  CHECK((body IS NULL) <> (file IS NULL))
);

-- salt 0: shared by all who want this measurement; else the experiment that must have its own (reproduce, retry).
-- The open attempt of a leased task is (attempt, session_epoch): both are checked in every statement that writes for it.
CREATE TABLE tasks(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL REFERENCES measurements(key),
  numerics_class TEXT,
  salt INTEGER NOT NULL DEFAULT 0,
  kind TEXT NOT NULL,
  model TEXT NOT NULL,
  weights_hash TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending'
    CHECK(state IN ('pending', 'leased', 'finished', 'failed', 'poisoned', 'unwanted')),
  attempt INTEGER NOT NULL DEFAULT 0,
  session_epoch INTEGER NOT NULL DEFAULT 0,
  charged_attempts INTEGER NOT NULL DEFAULT 0,
  readings INTEGER NOT NULL DEFAULT 0,
  digest TEXT NOT NULL DEFAULT '',
  fed_ids_digest TEXT NOT NULL DEFAULT '',
  cause TEXT NOT NULL DEFAULT '',
  measured_for INTEGER NOT NULL,
  UNIQUE(key, numerics_class, salt),
  CHECK(numerics_class IS NOT NULL OR state IN ('pending', 'unwanted'))
);

CREATE TABLE stage_tasks(
  experiment INTEGER NOT NULL REFERENCES experiments(id),
  stage INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  task INTEGER NOT NULL REFERENCES tasks(id),
  PRIMARY KEY(experiment, stage, idx)
) WITHOUT ROWID;
CREATE INDEX links_of_task ON stage_tasks(task);

CREATE TABLE attempts(
  task INTEGER NOT NULL REFERENCES tasks(id),
  attempt INTEGER NOT NULL,
  session_epoch INTEGER NOT NULL,
  worker TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  build TEXT NOT NULL,
  device TEXT NOT NULL,
  numerics_class TEXT NOT NULL,
  outcome TEXT NOT NULL DEFAULT 'running',
  cause TEXT NOT NULL DEFAULT '',
  log_tail TEXT NOT NULL DEFAULT '',
  charged INTEGER NOT NULL DEFAULT 0,
  started_us INTEGER NOT NULL,
  ended_us INTEGER NOT NULL DEFAULT 0,
  device_ms INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(task, attempt)
) WITHOUT ROWID;
CREATE INDEX open_attempts ON attempts(worker) WHERE outcome = 'running';

-- With rowids: writing is 1.2 (800-byte bodies) to 1.7 times (60 KB) as fast as WITHOUT ROWID, reading the same.
CREATE TABLE readings(
  task INTEGER NOT NULL REFERENCES tasks(id),
  sequence INTEGER NOT NULL CHECK(sequence >= 1),
  attempt INTEGER NOT NULL,
  committed_us INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  file TEXT,  -- sha256 of an artifact file
  body BLOB,  -- ropelab.v1.Reading; NULL: in the file
  PRIMARY KEY(task, sequence),
  CHECK((body IS NULL) <> (file IS NULL))
);

-- What contradicts a stored reading or completion (then sequence is one past the last reading, sha256 the completion's digest).
CREATE TABLE divergences(
  task INTEGER NOT NULL REFERENCES tasks(id),
  sequence INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  seen_us INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  file TEXT,
  body BLOB,
  PRIMARY KEY(task, sequence, attempt, sha256)
);

CREATE TABLE result_tables(
  experiment INTEGER NOT NULL REFERENCES experiments(id),
  name TEXT NOT NULL,
  rows INTEGER NOT NULL,
  partial INTEGER NOT NULL,
  columns BLOB NOT NULL,  -- ropelab.v1.TableSlice without rows
  file TEXT,              -- NULL: the rows are whole in SQL
  PRIMARY KEY(experiment, name)
) WITHOUT ROWID;

CREATE TABLE artifacts(
  experiment INTEGER NOT NULL REFERENCES experiments(id),
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY(experiment, name)
) WITHOUT ROWID;

-- Result tables: <name>_rows holds them, `ordinal` being the row's place in the whole table; the view <name> is what people query,
-- by experiment: the index is on the view's own expression, so that 'e12' finds its rows without reading the others'.

CREATE TABLE slash_scores_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "rows" TEXT, "layer" INTEGER, "head" INTEGER,
  "offset" INTEGER, "score" REAL, "stderr" REAL, "uniform" REAL, "reachable" BOOLEAN, "prompts" INTEGER, "dominant" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX slash_scores_by_experiment ON slash_scores_rows('e' || experiment);
CREATE VIEW slash_scores AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "rows", "layer", "head", "offset", "score", "stderr", "uniform", "reachable",
  "prompts", "dominant" FROM slash_scores_rows;

CREATE TABLE slash_heads_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "seed" INTEGER, "layer" INTEGER, "head" INTEGER,
  "best_offset" INTEGER, "score" REAL, "stderr" REAL, "dominant_offsets" TEXT, "dominant" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX slash_heads_by_experiment ON slash_heads_rows('e' || experiment);
CREATE VIEW slash_heads AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "seed", "layer", "head", "best_offset", "score", "stderr", "dominant_offsets",
  "dominant" FROM slash_heads_rows;

CREATE TABLE frequencies_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "layer" INTEGER, "head" INTEGER, "pair" INTEGER, "theta" REAL,
  "amplitude" REAL, "phase" REAL, "mean_inp" REAL, "mean_abs_inp" REAL, "inp_at_lag" REAL, "std_inp" REAL, "active" BOOLEAN,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX frequencies_by_experiment ON frequencies_rows('e' || experiment);
CREATE VIEW frequencies AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "layer", "head", "pair", "theta", "amplitude", "phase", "mean_inp", "mean_abs_inp",
  "inp_at_lag", "std_inp", "active" FROM frequencies_rows;

CREATE TABLE series_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "name" TEXT, "x" REAL, "y" REAL,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX series_by_experiment ON series_rows('e' || experiment);
CREATE VIEW series AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "name", "x", "y" FROM series_rows;

CREATE TABLE statistics_rows(
  experiment INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  "model" TEXT, "dtype" TEXT, "numerics_class" TEXT, "name" TEXT, "checkpoint" TEXT, "detector" TEXT, "threshold" REAL,
  "seed" INTEGER, "value" REAL, "low" REAL, "high" REAL, "p" REAL, "n" INTEGER, "undefined_because" TEXT,
  PRIMARY KEY(experiment, ordinal)
) WITHOUT ROWID;
CREATE INDEX statistics_by_experiment ON statistics_rows('e' || experiment);
CREATE VIEW statistics AS SELECT 'e' || experiment AS experiment,
  "model", "dtype", "numerics_class", "name", "checkpoint", "detector", "threshold", "seed", "value", "low", "high", "p", "n",
  "undefined_because" FROM statistics_rows;
