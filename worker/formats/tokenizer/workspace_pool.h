// Buffers and word caches that encoding threads borrow.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "worker/formats/tokenizer/bpe.h"

namespace ropelab::formats {

// Keeps as many workspaces as threads ever encoded at once. Thread-safe.
class WorkspacePool {
 public:
  // A workspace that goes back when the loan ends.
  class Loan {
   public:
    Loan(WorkspacePool& pool, std::unique_ptr<Bpe::Workspace> workspace)
        : pool_(pool), workspace_(std::move(workspace)) {}
    ~Loan() { pool_.Return(std::move(workspace_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    Bpe::Workspace& operator*() { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Bpe::Workspace> workspace_;
  };

  Loan Borrow();

 private:
  void Return(std::unique_ptr<Bpe::Workspace> workspace);

  Mutex mutex_;
  std::vector<std::unique_ptr<Bpe::Workspace>> idle_ ROPELAB_GUARDED_BY(mutex_);
};

}  // namespace ropelab::formats
