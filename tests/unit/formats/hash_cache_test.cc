// A hash that was remembered never outlives the bytes that it was taken of.
#include "worker/formats/hash_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;

constexpr char kFile[] = "model.safetensors";

bool Always(int64_t, int64_t) {
  return true;
}
bool Never(int64_t, int64_t) {
  return false;
}

std::string FileBytes(const std::string& four) {
  return SerializeSafetensors({{"a.weight", "U8", {4}, four}});
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// An hour from now, so that what was just written has settled; a real tick of the file system's goes by
// first.
struct LaterClock : Clock {
  std::chrono::nanoseconds Monotonic() const override { return Clock::Real().Monotonic(); }
  int64_t WallMicroseconds() const override { return Clock::Real().WallMicroseconds() + 3'600'000'000; }
};

void Settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

absl::StatusOr<std::string> Hash(const std::string& directory, const std::string& cache_dir,
                                 absl::FunctionRef<bool(int64_t, int64_t)> keep_going) {
  return WeightsHashBy(LaterClock(), directory, cache_dir, keep_going);
}

// Sets the times that a tool can set back to what they were.
void SetTimes(const std::string& path, const struct stat& old) {
  const timespec times[] = {old.st_atim, old.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

bool OnTmpfs(const std::string& path) {
  struct statfs status {};
  return statfs(path.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    size_ = std::filesystem::file_size(path);
    bytes_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  ~Mapping() { munmap(bytes_, size_); }
  void SetLast(char byte) { const_cast<volatile char*>(bytes_)[size_ - 1] = byte; }

 private:
  char* bytes_;
  size_t size_;
};

TEST(HashCache, NeverSurvivesAChangeThatKeepsSizeAndModificationTime) {
  struct Case {
    const char* what;
    std::function<void(const std::string& path, const struct stat& old)> change;
  };
  const std::vector<Case> cases = {
      {"replaced by renaming",
       [](const std::string& path, const struct stat& old) {
         Write(path + ".new", FileBytes("abcx"));
         SetTimes(path + ".new", old);
         std::filesystem::rename(path + ".new", path);
       }},
      {"copied over in place with the old times",
       [](const std::string& path, const struct stat& old) {
         Write(path, FileBytes("abcx"));
         SetTimes(path, old);
       }},
      {"one byte written in place",
       [](const std::string& path, const struct stat& old) {
         const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
         EXPECT_EQ(pwrite(fd, "x", 1, old.st_size - 1), 1);
         close(fd);
         SetTimes(path, old);
       }},
      {"truncated and written again",
       [](const std::string& path, const struct stat& old) {
         EXPECT_EQ(truncate(path.c_str(), 0), 0);
         EXPECT_EQ(truncate(path.c_str(), old.st_size), 0);
         Write(path, FileBytes("xbcd"));
         SetTimes(path, old);
       }},
      {"written through a mapping",
       [](const std::string& path, const struct stat& old) {
         Mapping(path).SetLast('x');
         SetTimes(path, old);
       }},
      {"a symbolic link that points elsewhere, as in a hub's cache",
       [](const std::string& path, const struct stat& old) {
         const std::string blob = path + ".blob";
         Write(blob, FileBytes("abcx"));
         SetTimes(blob, old);
         std::filesystem::remove(path);
         std::filesystem::create_symlink(blob, path);
       }},
      {"the directory exchanged for another", [](const std::string& path, const struct stat& old) {
         const std::filesystem::path directory = std::filesystem::path(path).parent_path();
         std::filesystem::rename(directory, directory.string() + ".old");
         std::filesystem::create_directory(directory);
         Write(path, FileBytes("abcx"));
         SetTimes(path, old);
         std::filesystem::remove_all(directory.string() + ".old");
       }}};
  TemporaryDirectory cache;
  std::vector<TemporaryDirectory> directories(cases.size());
  for (const TemporaryDirectory& directory : directories) directory.Write(kFile, FileBytes("abcd"));
  Settle();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].what);
    const std::string& path = directories[i].path();
    const auto before = Hash(path, cache.path(), Always);
    ASSERT_TRUE(before.ok()) << before.status();
    ASSERT_EQ(*before, *Hash(path, cache.path(), Never)) << "it is not cached";
    struct stat old {};
    ASSERT_EQ(stat(directories[i].File(kFile).c_str(), &old), 0);
    cases[i].change(directories[i].File(kFile), old);
    struct stat now {};
    ASSERT_EQ(stat(directories[i].File(kFile).c_str(), &now), 0);
    ASSERT_EQ(now.st_size, old.st_size);
    ASSERT_EQ(now.st_mtim.tv_nsec, old.st_mtim.tv_nsec);
    EXPECT_EQ(Hash(path, cache.path(), Never).status().code(), absl::StatusCode::kCancelled);
    const auto after = Hash(path, cache.path(), Always);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_NE(*before, *after);
    EXPECT_EQ(*after, *Hash(path, "", Always));
  }
}

// Pages that are dirty when the hashing begins are stamped no more by later writes through the same mapping.
TEST(HashCache, NeverSurvivesAWriterWhoseMappingWasDirtyAlready) {
  TemporaryDirectory directory;
  if (OnTmpfs(directory.path())) GTEST_SKIP() << "tmpfs does not stamp what is written through a mapping";
  TemporaryDirectory cache;
  directory.Write(kFile, FileBytes("abcd"));
  Mapping writer(directory.File(kFile));
  writer.SetLast('1');
  Settle();
  const auto before = Hash(directory.path(), cache.path(), Always);
  ASSERT_TRUE(before.ok()) << before.status();
  writer.SetLast('2');
  const auto after = Hash(directory.path(), cache.path(), Always);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(*before, *after);
}

TEST(HashCache, TakesNoEntryWhileAChangeCouldHideInAClockTick) {
  TemporaryDirectory directory;
  TemporaryDirectory cache;
  directory.Write(kFile, FileBytes("abcd"));
  ASSERT_TRUE(WeightsHash(directory.path(), cache.path(), Always).ok());
  EXPECT_TRUE(std::filesystem::is_empty(cache.path()));
  // What git calls racy: another change in the same tick, same size.
  FileStamps stamps;
  stamps.newest_ns = 5'000'000'000;
  EXPECT_FALSE(IsSettled(stamps, 5'000'000'000));
  EXPECT_FALSE(IsSettled(stamps, 7'000'000'000));
  EXPECT_TRUE(IsSettled(stamps, 7'000'000'001));
  EXPECT_FALSE(IsSettled(stamps, 4'000'000'000)) << "a clock that is behind the file system's";
}

TEST(HashCache, TakesNoEntryOfFilesFromTheFuture) {
  TemporaryDirectory directory;
  TemporaryDirectory cache;
  directory.Write(kFile, FileBytes("abcd"));
  std::filesystem::last_write_time(directory.File(kFile),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(3));
  Settle();
  ASSERT_TRUE(Hash(directory.path(), cache.path(), Always).ok());
  EXPECT_TRUE(std::filesystem::is_empty(cache.path()));
}

TEST(HashCache, IsSharedByWorkersThatHashAtOnce) {
  TemporaryDirectory one;
  TemporaryDirectory two;
  TemporaryDirectory cache;
  one.Write(kFile, FileBytes("abcd"));
  two.Write(kFile, FileBytes("abcx"));
  Settle();
  const std::string expected_one = *Hash(one.path(), "", Always);
  const std::string expected_two = *Hash(two.path(), "", Always);
  std::vector<std::thread> workers;
  for (int i = 0; i < 8; ++i) {
    workers.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(*Hash(i % 2 == 0 ? one.path() : two.path(), cache.path(), Always),
                  i % 2 == 0 ? expected_one : expected_two);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(*Hash(one.path(), cache.path(), Never), expected_one);
  EXPECT_EQ(*Hash(two.path(), cache.path(), Never), expected_two);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.path()), {}), 2)
      << "nothing is left over";
}

TEST(HashCache, IsOneEntryForEveryPathToADirectory) {
  TemporaryDirectory directory;
  TemporaryDirectory links;
  std::filesystem::create_directory_symlink(directory.path(), links.File("m"));
  EXPECT_EQ(HashCachePath(directory.path(), "/c"), HashCachePath(links.File("m"), "/c"));
  EXPECT_EQ(HashCachePath(directory.path(), "/c"), HashCachePath(directory.path() + "/.", "/c"));
  EXPECT_NE(HashCachePath(directory.path(), "/c"), HashCachePath(links.path(), "/c"));
}

TEST(HashCache, ADamagedEntryIsNoEntry) {
  TemporaryDirectory directory;
  TemporaryDirectory cache;
  directory.Write(kFile, FileBytes("abcd"));
  Settle();
  const auto hash = Hash(directory.path(), cache.path(), Always);
  ASSERT_TRUE(hash.ok()) << hash.status();
  const std::string path = HashCachePath(directory.path(), cache.path());
  const FileStamps stamps = *StampFiles(directory.path(), {kFile});
  ASSERT_EQ(ReadHashCache(path, stamps), *hash);
  for (const std::string& text :
       {std::string("{\"sha"), std::string("[]"), R"({"shards":")" + stamps.text + R"("})",
        R"({"shards":")" + stamps.text + R"(","weights_hash":"abc"})"}) {
    Write(path, text);
    EXPECT_FALSE(ReadHashCache(path, stamps).has_value()) << text;
    EXPECT_EQ(*hash, *Hash(directory.path(), cache.path(), Always));
  }
}

TEST(HashCache, ACacheThatCannotBeWrittenCostsOnlyTime) {
  TemporaryDirectory directory;
  directory.Write(kFile, FileBytes("abcd"));
  directory.Write("plain", "");
  Settle();
  EXPECT_TRUE(Hash(directory.path(), directory.File("plain/cache"), Always).ok());
}

// 256 MiB of zeros that take no disk: large enough to be waited for, so that it need not be hashed twice.
TEST(HashCache, LargeFilesAreWaitedForAndLeaveThisProcessAsTheyAreRead) {
  TemporaryDirectory directory;
  TemporaryDirectory cache;
  constexpr size_t kBytes = size_t{256} << 20;
  std::string header = R"({"a":{"dtype":"U8","shape":[)" + std::to_string(kBytes) +
                       R"(],"data_offsets":[0,)" + std::to_string(kBytes) + "]}}";
  std::string file = SerializeSafetensors({});
  for (int i = 0; i < 8; ++i)
    file[static_cast<size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  directory.Write(kFile, file.substr(0, 8) + header);
  std::filesystem::resize_file(directory.File(kFile), 8 + header.size() + kBytes);
  const auto resident = [] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  const int64_t before = resident();
  int64_t most = 0;
  const auto hash = WeightsHash(directory.path(), cache.path(), [&](int64_t, int64_t) {
    most = std::max(most, resident() - before);
    return true;
  });
  ASSERT_TRUE(hash.ok()) << hash.status();
  EXPECT_LT(most, int64_t{40} << 20);
  EXPECT_EQ(*hash, *WeightsHash(directory.path(), cache.path(), Never));
}

}  // namespace
}  // namespace ropelab::formats
