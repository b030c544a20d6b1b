// Every number's pedigree: what was asked, what computed it, where and when.
#pragma once

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

// Tasks in the order of stage and index, from request.skip_tasks() on, as many as fit a message; more_tasks
// tells whether some are left. Everything else comes whole with each page.
absl::Status GetProvenance(const ServiceContext& context, const v1::ProvenanceRequest& request,
                           v1::Provenance& response);

}  // namespace ropelab::api
