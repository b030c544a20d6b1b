// What is known of corpora, and their documents.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "ropelab/v1/spec.pb.h"
#include "ropelab/v1/worker_service.pb.h"
#include "server/api/service_context.h"
#include "server/store/corpora.h"

namespace ropelab::api {

// Looks at its files, as to whether they can be read now.
v1::Corpus DescribeCorpus(const store::CorpusRow& row, const store::CorpusFiles& files);

// By name; of one name the last registered first.
absl::Status ListCorpora(const ServiceContext& context, const v1::ListCorporaRequest& request,
                         v1::ListCorporaResponse& response);

// Those that a resolved spec names ("name@sha256"), each once, in its order. One that is not registered any
// more is described by its name, hash and that problem.
absl::Status DescribeCorporaOf(store::Connection& db, const store::CorpusFiles& files,
                               const v1::ExperimentSpec& resolved, v1::Provenance& response);

// The document's bytes in pieces, then an empty piece with its SHA-256.
absl::Status ReadCorpus(const ServiceContext& context, const v1::ReadCorpusRequest& request,
                        const std::function<absl::Status(v1::CorpusBytes)>& send);

}  // namespace ropelab::api
