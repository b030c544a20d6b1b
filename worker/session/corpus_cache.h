// The documents of corpora that this worker has fetched, so that the tasks of one experiment fetch each once.
#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "absl/status/statusor.h"
#include "worker/session/corpus_fetch.h"
#include "worker/session/document_files.h"

namespace ropelab::session {

// Measuring thread only.
class CorpusCache {
 public:
  struct Options {
    std::string folder;                       // empty: in memory alone
    int64_t folder_limit = int64_t{2} << 30;  // bytes
    int64_t memory_limit = int64_t{128} << 20;
    CorpusFetcher::Options fetch;
  };
  explicit CorpusCache(Options options);

  // A document's bytes as registered. Statuses as CorpusFetcher::Fetch gives them; INVALID_ARGUMENT where
  // `corpus` is no SHA-256 or the document's number is negative.
  absl::StatusOr<std::string> Document(const std::string& corpus, int64_t document, FetchProgress progress);

 private:
  struct Held {
    std::string corpus;
    int64_t document = 0;
    std::string bytes;
  };
  const std::string* Find(const std::string& corpus, int64_t document);
  void Hold(Held held);

  const bool on_disk_;
  const int64_t memory_limit_;
  CorpusFetcher fetcher_;
  DocumentFiles files_;
  std::list<Held> held_;  // most recently used first; only without a folder
  int64_t held_bytes_ = 0;
};

}  // namespace ropelab::session
