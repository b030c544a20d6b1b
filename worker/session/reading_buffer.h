// What a worker has measured and the server has not yet acknowledged. Bounded: a full buffer makes the
// measurement wait, and that is the flow control of the whole stream. No threads, no lock: its owner holds
// one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ropelab/v1/worker_service.pb.h"

namespace ropelab::session {

struct BufferedArtifact {
  std::string sha256;  // hex, of bytes
  std::string bytes;
};

// One step of a task: a reading with the artifacts it names, or the message that ends the task (Completion,
// TaskFailure, HandBack). Tokens stay unset here: the token of the moment is stamped when the message is
// sent.
struct BufferedEntry {
  int64_t work = 0;      // the session's own number for a held task
  int64_t sequence = 0;  // of the reading; one past the last for an end
  v1::WorkerMessage message;
  std::vector<BufferedArtifact> artifacts;
  bool sent = false;
  // Progress through the artifacts while they are being sent.
  size_t artifact = 0;
  size_t offset = 0;

  int64_t bytes() const;
};

class ReadingBuffer {
 public:
  // Below what a server takes of one session before it stops reading (64 messages, 8 MiB): a worker that
  // waits for acknowledgements, because the server's disk is full, is still heard with its heartbeats.
  struct Bounds {
    size_t entries = 48;
    int64_t bytes = int64_t{6} << 20;
  };
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  explicit ReadingBuffer(Bounds bounds) : bounds_(bounds) {}

  // An entry larger than the bound is taken when nothing else is held, so that one large artifact cannot
  // block for ever.
  bool HasRoom(const BufferedEntry& entry) const;
  void Push(BufferedEntry entry);

  // The next message to send and the task that it belongs to: the chunks of an entry's artifacts first, then
  // the entry.
  struct Piece {
    int64_t work = 0;
    v1::WorkerMessage message;
  };
  std::optional<Piece> Next();
  // The task whose message Next() would give.
  std::optional<int64_t> NextWork() const;

  void Acknowledge(int64_t work, int64_t sequence);  // drops entries of `work` up to `sequence`
  void Drop(int64_t work);
  void Rewind();  // a new stream: everything that is left is sent again

  size_t entries() const { return entries_.size(); }
  int64_t bytes() const { return bytes_; }
  int64_t LastSent(int64_t work) const;  // 0: none
  bool Holds(int64_t work) const;
  bool Unsent() const { return NextWork().has_value(); }

 private:
  const BufferedEntry* FirstUnsent() const;
  void Recount();

  Bounds bounds_;
  std::deque<BufferedEntry> entries_;
  int64_t bytes_ = 0;
};

}  // namespace ropelab::session
