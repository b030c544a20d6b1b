// The edit that puts a low-rank projection in a head's place, wherever a spec asks for it: its matrices, its
// rank and the form in which a task takes it. EXPERIMENTS.md sections 5 and 9.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/repeated_field.h"
#include "ropelab/v1/interventions.pb.h"
#include "server/experiments/head_set.h"

namespace ropelab::experiments {

// v1::Matrix values, as a repeated enum field holds them.
using Matrices = google::protobuf::RepeatedField<int>;

// Query and key where none is named; refuses one that is named twice; writes them in the order QUERY, KEY.
void ResolveMatrices(Matrices& matrices, const std::string& path, Problems& problems);
// A rank is 1 to the head_dim of every model, which leaves the projection as it is.
void CheckRank(int64_t rank, const std::string& path, const Facts& facts, Problems& problems);
bool Edits(const Matrices& matrices, v1::Matrix::Value matrix);

// The edit with its heads listed, without their offsets: nothing that would not move a bit of a reading.
v1::Intervention LowRankEditOf(const std::vector<NamedHead>& heads, int64_t rank, const Matrices& matrices);

// Parameters that two factors of rank r spare over the edited matrices, each distinct one once: its
// hidden_size * head_dim less r * (hidden_size + head_dim). A KV head's key projection is one matrix however
// many of its query heads are named. Negative where the factors hold more than the matrix.
int64_t SavedParameters(const v1::ModelConfig& config, const std::vector<NamedHead>& heads, int64_t rank,
                        const Matrices& matrices);

// The KV head that a query head uses.
int64_t KvHeadOf(const v1::ModelConfig& config, int64_t head);

}  // namespace ropelab::experiments
