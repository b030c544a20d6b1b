// What lies under --corpora: every *.txt and *.jsonl file and every folder of *.txt files is a corpus named
// by its stem, read where it lies.
#pragma once

#include <functional>
#include <string>

#include "server/api/service_context.h"

namespace ropelab::api {

// Registers what is new or changed since an earlier start; a file whose size, times and inode are as they
// were is not read again. Reads whole files: run it on a pool's thread. What cannot be registered is logged
// with the reason. Ends soon after `stopping` says so.
void RegisterCorporaDir(const ServiceContext& context, const std::string& folder,
                        const std::function<bool()>& stopping);

}  // namespace ropelab::api
