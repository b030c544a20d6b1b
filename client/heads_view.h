// Registered head scores as text. Pure functions; `now` is UTC microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "ropelab/v1/head_scores.pb.h"

namespace ropelab::client {

std::string RenderHeadScoreSets(const v1::ListHeadScoresResponse& response, int64_t now);
// One set whole, its hash too.
std::string RenderHeadScoreSet(const v1::HeadScoreSet& set);
// The set, its counts by threshold, and its best heads.
std::string RenderHeadScores(const v1::GetHeadScoresResponse& response);
std::string RenderHeadScoreOverlap(const v1::OverlapHeadScoresResponse& response);

}  // namespace ropelab::client
