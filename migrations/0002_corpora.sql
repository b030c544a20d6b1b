-- One name may have had several contents: the key is name and hash. A name alone means the one of them that can be
-- read; where several can, a spec must say name@hash. What version 1 knew of a corpus has no index of its
-- documents; such a row stays, as one that cannot be read until it is registered again.
CREATE TABLE corpora_by_content(
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN ('text', 'jsonl')),
  documents INTEGER NOT NULL,
  bytes INTEGER NOT NULL,         -- of the documents
  registered_us INTEGER NOT NULL, -- the newest are listed first; it decides nothing
  place TEXT NOT NULL CHECK(place IN ('data-dir', 'corpora-dir')),
  path TEXT NOT NULL,             -- the file or folder under --corpora, '' if it never was one
  stamp TEXT NOT NULL,            -- what stat said of path when it was read
  user TEXT NOT NULL,
  text_fields TEXT NOT NULL,      -- a line each
  PRIMARY KEY(name, sha256)
) WITHOUT ROWID;
INSERT INTO corpora_by_content
  SELECT name, sha256, 'text', 0, bytes, registered_us, 'corpora-dir', path, '', '', '' FROM corpora;
DROP TABLE corpora;
ALTER TABLE corpora_by_content RENAME TO corpora;
CREATE INDEX corpora_by_hash ON corpora(sha256);

-- What a task that needs no weights is placed by.
ALTER TABLE tasks ADD COLUMN tokenizer_hash TEXT NOT NULL DEFAULT '';
