// What both fuzz targets of specs ask of a submission once it is a message: the server's whole way from what
// was typed to the tasks of its first stage.
#pragma once

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::fuzz {

// The strict walk, resolution against two small models and a corpus, the cost, and, where the plan is small,
// the plan. Ends the process when a problem cannot be shown or an accepted spec changes its hash on the
// wire. True: the strict walk found nothing.
bool CheckSubmission(const v1::Submission& submission);

}  // namespace ropelab::fuzz
