#include "server/experiments/safetensors.h"

#include <bit>
#include <utility>

namespace ropelab::experiments {
namespace {

// Little-endian, as the format wants it.
void AppendWord(uint64_t word, std::string& to) {
  for (int shift = 0; shift < 64; shift += 8) {
    to.push_back(static_cast<char>(word >> shift & 0xff));
  }
}

}  // namespace

void SafetensorsFile::Add(const std::string& name, std::vector<int64_t> shape,
                          std::span<const double> values) {
  const size_t begin = data_.size();
  for (const double value : values) {
    AppendWord(std::bit_cast<uint64_t>(value), data_);
  }
  header_[name] = {{"dtype", "F64"}, {"shape", std::move(shape)}, {"data_offsets", {begin, data_.size()}}};
}

std::string SafetensorsFile::Bytes() const {
  std::string text = header_.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the numbers are aligned
  std::string file;
  AppendWord(text.size(), file);
  file += text;
  return file + data_;
}

}  // namespace ropelab::experiments
