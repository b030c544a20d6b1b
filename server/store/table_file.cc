#include "server/store/table_file.h"

#include <fcntl.h>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "server/store/file_io.h"
#include "server/store/slices.h"

namespace ropelab::store {

absl::StatusOr<std::string> WriteTableFile(ArtifactFiles& files, const std::string& upload,
                                           const v1::TableSlice& table) {
  Sha256 hash;
  int64_t written = 0;
  // Named, because the writer keeps a reference to it.
  const auto append = [&](const v1::TableSlice& slice) -> absl::Status {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      coded.WriteVarint32(static_cast<uint32_t>(slice.ByteSizeLong()));
      slice.SerializeWithCachedSizes(&coded);
    }
    hash.Update(bytes);
    ROPELAB_RETURN_IF_ERROR(files.Append(upload, written, bytes));
    written += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  };
  SliceWriter writer(HeaderOf(table), append);
  absl::Status status;
  for (int64_t row = 0; row < table.rows() && status.ok(); ++row) {
    for (int column = 0; column < table.columns_size(); ++column) {
      writer.Add(column, CellOf(table.columns(column), row));
    }
    status = writer.EndRow();
  }
  if (status.ok()) status = writer.Finish();
  const std::string sha256 = hash.FinishHex();
  if (status.ok()) status = files.Finish(upload, sha256).status();
  if (!status.ok()) {
    files.Abandon(upload);
    return status;
  }
  return sha256;
}

absl::Status ReadTableFile(const ArtifactFiles& files, const std::string& sha256,
                           absl::FunctionRef<absl::Status(const v1::TableSlice&)> visit) {
  ROPELAB_RETURN_IF_ERROR(files.Check(sha256));
  ROPELAB_ASSIGN_OR_RETURN(const File file, File::Open(files.PathOf(sha256), O_RDONLY));
  google::protobuf::io::FileInputStream stream(file.descriptor());
  for (;;) {
    v1::TableSlice slice;
    bool clean_end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&slice, &stream, &clean_end)) {
      if (clean_end) return absl::OkStatus();
      return absl::DataLossError(
          absl::StrCat("the table file ", files.PathOf(sha256), " is damaged: run the experiment again"));
    }
    ROPELAB_RETURN_IF_ERROR(visit(slice));
  }
}

}  // namespace ropelab::store
