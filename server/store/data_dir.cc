#include "server/store/data_dir.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/errors.h"

namespace ropelab::store {

std::optional<std::string> NetworkFileSystemName(uint64_t f_type) {
  // statfs(2) and linux/magic.h.
  switch (f_type) {
    case 0x6969:
      return "NFS";
    case 0x517B:
    case 0xFE534D42:
    case 0xFF534D42:
      return "SMB";
    case 0x65735546:
      return "FUSE";
    case 0x01021997:
      return "9P";
    case 0x5346414F:
    case 0x6B414653:
      return "AFS";
    case 0x73757245:
      return "Coda";
    case 0x564C:
      return "NCP";
    case 0x00C36400:
      return "Ceph";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x01161970:
      return "GFS2";
    case 0x7461636F:
      return "OCFS2";
    default:
      return std::nullopt;
  }
}

absl::Status PrepareDataDir(const std::string& data_dir) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(data_dir, error);
  if (error) return FileError("making the data directory", data_dir, error.value());
  if (made) ROPELAB_RETURN_IF_ERROR(SyncFolder(data_dir + "/.."));
  struct statfs facts;
  if (statfs(data_dir.c_str(), &facts) != 0) return FileError("examining", data_dir, errno);
  const uint64_t f_type = static_cast<uint64_t>(facts.f_type) & 0xFFFFFFFF;
  if (const auto name = NetworkFileSystemName(f_type)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", data_dir, " is on a network file system (", *name,
                     "), where a database can be damaged: choose --data-dir on a local disk"));
  }
  return absl::OkStatus();
}

absl::StatusOr<File> LockDataDir(const std::string& data_dir) {
  const std::string path = absl::StrCat(data_dir, "/lock");
  ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT));
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file.descriptor(), F_OFD_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES) return FileError("locking", path, errno);
    const absl::StatusOr<std::string> pid = file.ReadAt(0, 32);
    const std::string holder =
        pid.ok() && !pid->empty() ? std::string(absl::StripAsciiWhitespace(*pid)) : "unknown";
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", data_dir,
                                                      " is in use by the ropelab-server with pid ", holder,
                                                      ": stop that one or choose another --data-dir"));
  }
  // In place and of one length, so that a full disk does not keep a server from starting; the lock is the
  // kernel's anyway.
  const std::string pid = absl::StrCat(getpid());
  (void)file.WriteAt(0, pid + std::string(20 - pid.size(), ' ') + "\n");
  return file;
}

}  // namespace ropelab::store
