-- A model's tokenizer tells two models of one name apart as its weights do: workers that hold the same weights beside
-- different tokenizers no longer overwrite each other's announcement.
CREATE TABLE models_by_content(
  name TEXT NOT NULL,
  config_hash TEXT NOT NULL,
  weights_hash TEXT NOT NULL,    -- '' until a worker computed it
  tokenizer_hash TEXT NOT NULL,  -- '' without a tokenizer
  bytes INTEGER NOT NULL,
  last_seen_us INTEGER NOT NULL,
  last_worker TEXT NOT NULL,
  announcement BLOB NOT NULL,  -- ropelab.v1.ModelAnnouncement
  PRIMARY KEY(name, config_hash, weights_hash, tokenizer_hash)
) WITHOUT ROWID;

-- The hash stands in the announcement: protobuf writes name (field 1), config hash (2) and tokenizer hash (3) in this order,
-- each as a tag byte, a length (two bytes from 128 on) and the text. A SHA-256 in hex has 64 bytes, so field 3 begins 1A 40.
INSERT INTO models_by_content
  WITH at AS (
    SELECT *,
      CASE WHEN name = '' THEN 0 WHEN length(CAST(name AS BLOB)) < 128 THEN 2 ELSE 3 END + length(CAST(name AS BLOB)) +
      CASE WHEN config_hash = '' THEN 0 ELSE 2 END + length(config_hash) AS before
    FROM models)
  SELECT name, config_hash, weights_hash,
    CASE WHEN hex(substr(announcement, before + 1, 2)) = '1A40' THEN CAST(substr(announcement, before + 3, 64) AS TEXT)
      ELSE '' END,
    bytes, last_seen_us, last_worker, announcement
  FROM at;
DROP TABLE models;
ALTER TABLE models_by_content RENAME TO models;

-- What a task is placed by: config hash as well as weights hash, '' meaning any; the tokenizer's only where the task turns text
-- into token ids. Tasks planned before keep what they have: any config, and their model's tokenizer even where they read no text.
ALTER TABLE tasks ADD COLUMN config_hash TEXT NOT NULL DEFAULT '';
