#include "worker/session/reading_buffer.h"

#include <algorithm>
#include <utility>

namespace ropelab::session {

int64_t BufferedEntry::bytes() const {
  int64_t total = static_cast<int64_t>(message.ByteSizeLong());
  for (const BufferedArtifact& file : artifacts) total += static_cast<int64_t>(file.bytes.size());
  return total;
}

bool ReadingBuffer::HasRoom(const BufferedEntry& entry) const {
  if (entries_.empty()) return true;
  return entries_.size() < bounds_.entries && bytes_ + entry.bytes() <= bounds_.bytes;
}

void ReadingBuffer::Push(BufferedEntry entry) {
  bytes_ += entry.bytes();
  entries_.push_back(std::move(entry));
}

const BufferedEntry* ReadingBuffer::FirstUnsent() const {
  for (const BufferedEntry& entry : entries_) {
    if (!entry.sent) return &entry;
  }
  return nullptr;
}

std::optional<int64_t> ReadingBuffer::NextWork() const {
  const BufferedEntry* entry = FirstUnsent();
  return entry == nullptr ? std::nullopt : std::optional<int64_t>(entry->work);
}

std::optional<ReadingBuffer::Piece> ReadingBuffer::Next() {
  BufferedEntry* entry = const_cast<BufferedEntry*>(FirstUnsent());
  if (entry == nullptr) return std::nullopt;
  Piece piece;
  piece.work = entry->work;
  if (entry->artifact == entry->artifacts.size()) {
    entry->sent = true;
    piece.message = entry->message;
    return piece;
  }
  const BufferedArtifact& file = entry->artifacts[entry->artifact];
  v1::ArtifactChunk* chunk = piece.message.mutable_artifact();
  chunk->set_sha256(file.sha256);
  chunk->set_offset(static_cast<int64_t>(entry->offset));
  chunk->set_data(file.bytes.substr(entry->offset, kChunkBytes));
  entry->offset = std::min(entry->offset + kChunkBytes, file.bytes.size());
  chunk->set_last(entry->offset == file.bytes.size());
  if (chunk->last()) {
    ++entry->artifact;
    entry->offset = 0;
  }
  return piece;
}

void ReadingBuffer::Acknowledge(int64_t work, int64_t sequence) {
  std::erase_if(entries_,
                [&](const BufferedEntry& entry) { return entry.work == work && entry.sequence <= sequence; });
  Recount();
}

void ReadingBuffer::Drop(int64_t work) {
  std::erase_if(entries_, [&](const BufferedEntry& entry) { return entry.work == work; });
  Recount();
}

void ReadingBuffer::Rewind() {
  for (BufferedEntry& entry : entries_) {
    entry.sent = false;
    entry.artifact = 0;
    entry.offset = 0;
  }
}

int64_t ReadingBuffer::LastSent(int64_t work) const {
  int64_t last = 0;
  for (const BufferedEntry& entry : entries_) {
    if (entry.work == work && entry.sent) last = std::max(last, entry.sequence);
  }
  return last;
}

bool ReadingBuffer::Holds(int64_t work) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const BufferedEntry& entry) { return entry.work == work; });
}

void ReadingBuffer::Recount() {
  bytes_ = 0;
  for (const BufferedEntry& entry : entries_) bytes_ += entry.bytes();
}

}  // namespace ropelab::session
