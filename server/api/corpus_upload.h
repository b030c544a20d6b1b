// AddCorpus: a client's stream of pieces becomes files, then a row. One message is read at a time, and the
// next only when the last is on its way to the disk; the work is done on a pool.
#pragma once

#include <atomic>
#include <memory>

#include "grpcpp/support/server_callback.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

// Must outlive its calls.
class CorpusUploads {
 public:
  explicit CorpusUploads(const ServiceContext& context) : context_(context) {}
  // The reactor deletes itself.
  grpc::ServerReadReactor<v1::AddCorpusRequest>* Open(grpc::CallbackServerContext* call,
                                                      v1::AddCorpusResponse* response);

 private:
  class Upload;
  const ServiceContext context_;
  std::atomic<int> open_ = 0;  // each may hold a document in memory
};

}  // namespace ropelab::api
