#include "server/store/result_digest.h"

#include <algorithm>
#include <bit>
#include <map>

#include "common/sha256.h"
#include "server/store/slices.h"

namespace ropelab::store {
namespace {

class Walk {
 public:
  void Integer(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) buffer_.push_back(static_cast<char>(value >> shift));
    if (buffer_.size() > (64 << 10)) Flush();
  }
  void Text(std::string_view text) {
    Integer(text.size());
    buffer_.append(text);
  }
  void Flag(bool flag) { buffer_.push_back(flag ? 1 : 0); }
  std::string Digest() {
    Flush();
    return hash_.FinishHex();
  }

 private:
  void Flush() {
    hash_.Update(buffer_);
    buffer_.clear();
  }
  Sha256 hash_;
  std::string buffer_;
};

void WalkTable(const v1::TableSlice& slice, Walk& walk) {
  walk.Text(slice.table());
  walk.Integer(slice.columns_size());
  for (const v1::Column& column : slice.columns()) {
    walk.Text(column.name());
    walk.Integer(column.type());
    walk.Flag(column.key());
  }
  walk.Integer(slice.rows());
  for (int64_t row = 0; row < slice.rows(); ++row) {
    for (const v1::Column& column : slice.columns()) {
      const Cell cell = CellOf(column, row);
      walk.Flag(cell.null);
      if (cell.null) continue;
      if (cell.type == v1::Column::TEXT) {
        walk.Text(cell.text);
      } else if (cell.type == v1::Column::REAL) {
        walk.Integer(std::bit_cast<uint64_t>(cell.real));
      } else {
        walk.Integer(static_cast<uint64_t>(cell.integer));
      }
    }
  }
}

}  // namespace

std::string ResultDigest(const std::vector<ResultTable>& tables,
                         const std::vector<ResultArtifact>& artifacts) {
  Walk walk;
  std::map<std::string, const v1::TableSlice*> by_name;
  for (const ResultTable& table : tables) by_name[table.slice.table()] = &table.slice;
  walk.Integer(by_name.size());
  for (const auto& [name, slice] : by_name) WalkTable(*slice, walk);
  std::map<std::string, std::string> files;
  for (const ResultArtifact& artifact : artifacts) files[artifact.name] = artifact.sha256;
  walk.Integer(files.size());
  for (const auto& [name, sha256] : files) {
    walk.Text(name);
    walk.Text(sha256);
  }
  return walk.Digest();
}

}  // namespace ropelab::store
