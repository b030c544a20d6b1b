#include "worker/formats/tokenizer/workspace_pool.h"

namespace ropelab::formats {

WorkspacePool::Loan WorkspacePool::Borrow() {
  std::unique_ptr<Bpe::Workspace> workspace;
  {
    const MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      workspace = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (workspace == nullptr) workspace = std::make_unique<Bpe::Workspace>();
  return Loan(*this, std::move(workspace));
}

void WorkspacePool::Return(std::unique_ptr<Bpe::Workspace> workspace) {
  const MutexLock lock(&mutex_);
  idle_.push_back(std::move(workspace));
}

}  // namespace ropelab::formats
