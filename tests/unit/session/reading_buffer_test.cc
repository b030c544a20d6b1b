#include "worker/session/reading_buffer.h"

#include <gtest/gtest.h>

namespace ropelab::session {
namespace {

BufferedEntry Entry(int64_t work, int64_t sequence, size_t body = 10) {
  BufferedEntry entry;
  entry.work = work;
  entry.sequence = sequence;
  entry.message.mutable_reading()->set_sequence(sequence);
  entry.message.mutable_reading()->set_body(std::string(body, 'x'));
  return entry;
}

TEST(ReadingBuffer, HasNoRoomBeyondItsEntries) {
  ReadingBuffer buffer({.entries = 2, .bytes = 1 << 20});
  buffer.Push(Entry(1, 1));
  EXPECT_TRUE(buffer.HasRoom(Entry(1, 2)));
  buffer.Push(Entry(1, 2));
  EXPECT_FALSE(buffer.HasRoom(Entry(1, 3)));
  buffer.Acknowledge(1, 1);
  EXPECT_TRUE(buffer.HasRoom(Entry(1, 3)));
}

TEST(ReadingBuffer, HasNoRoomBeyondItsBytesButTakesOneLargeEntryAlone) {
  ReadingBuffer buffer({.entries = 64, .bytes = 1000});
  EXPECT_TRUE(buffer.HasRoom(Entry(1, 1, 5000)));
  buffer.Push(Entry(1, 1, 5000));
  EXPECT_FALSE(buffer.HasRoom(Entry(1, 2, 1)));
  buffer.Acknowledge(1, 1);
  EXPECT_EQ(buffer.bytes(), 0);
  buffer.Push(Entry(1, 2, 500));
  EXPECT_FALSE(buffer.HasRoom(Entry(1, 3, 500)));
  EXPECT_TRUE(buffer.HasRoom(Entry(1, 3, 400)));
}

TEST(ReadingBuffer, SendsEachEntryOnceUntilRewound) {
  ReadingBuffer buffer({});
  buffer.Push(Entry(1, 1));
  buffer.Push(Entry(1, 2));
  EXPECT_EQ(buffer.Next()->message.reading().sequence(), 1);
  EXPECT_EQ(buffer.Next()->message.reading().sequence(), 2);
  EXPECT_FALSE(buffer.Next().has_value());
  EXPECT_EQ(buffer.LastSent(1), 2);
  buffer.Acknowledge(1, 1);
  buffer.Rewind();
  EXPECT_EQ(buffer.LastSent(1), 0);
  EXPECT_EQ(buffer.Next()->message.reading().sequence(), 2);
  EXPECT_FALSE(buffer.Next().has_value());
}

TEST(ReadingBuffer, SendsArtifactsInMebibytesBeforeTheirReading) {
  ReadingBuffer buffer({});
  BufferedEntry entry = Entry(4, 1);
  entry.artifacts.push_back({"aa", std::string((size_t{1} << 20) + 5, 'a')});
  entry.artifacts.push_back({"bb", ""});
  buffer.Push(std::move(entry));
  const v1::ArtifactChunk first = buffer.Next()->message.artifact();
  EXPECT_EQ(first.sha256(), "aa");
  EXPECT_EQ(first.offset(), 0);
  EXPECT_EQ(first.data().size(), 1u << 20);
  EXPECT_FALSE(first.last());
  const v1::ArtifactChunk second = buffer.Next()->message.artifact();
  EXPECT_EQ(second.offset(), 1 << 20);
  EXPECT_EQ(second.data(), "aaaaa");
  EXPECT_TRUE(second.last());
  const v1::ArtifactChunk empty = buffer.Next()->message.artifact();
  EXPECT_EQ(empty.sha256(), "bb");
  EXPECT_TRUE(empty.last());
  EXPECT_EQ(buffer.Next()->message.reading().sequence(), 1);
}

TEST(ReadingBuffer, AcknowledgementsAndDropsTouchOneTaskOnly) {
  ReadingBuffer buffer({});
  buffer.Push(Entry(1, 1));
  buffer.Push(Entry(2, 1));
  buffer.Acknowledge(2, 5);
  EXPECT_TRUE(buffer.Holds(1));
  EXPECT_FALSE(buffer.Holds(2));
  buffer.Drop(1);
  EXPECT_EQ(buffer.entries(), 0u);
  EXPECT_EQ(buffer.bytes(), 0);
}

}  // namespace
}  // namespace ropelab::session
