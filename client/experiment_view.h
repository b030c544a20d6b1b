// Experiments as text. Pure functions; `now` is UTC microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

// done, failed and cancelled are final.
bool IsFinal(const v1::Experiment& experiment);

std::string RenderExperimentList(const std::vector<v1::Experiment>& experiments, int64_t now);
std::string RenderExperiment(const v1::Experiment& experiment, int64_t now);

// One line, without its end: "detect (e3)  running  stage 2  12/64 tasks (8 reused)  19%  3.1 tasks/s  17s
// left  reason". `rate` in tasks per second; negative: not known.
std::string RenderProgress(const v1::Experiment& experiment, double rate);
// One line, ended: how it went and what to do next.
std::string RenderSummary(const v1::Experiment& experiment);

std::string RenderEstimates(const v1::ValidateResponse& response);
// Tables and artifacts, one or more.
std::string RenderResultsList(const v1::ListResultsResponse& response);
// What to say of an experiment that has neither: what to wait for, or why there is none.
std::string RenderNoResults(const v1::Experiment& experiment);

}  // namespace ropelab::client
