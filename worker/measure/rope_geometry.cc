// RopeGeometry: the demo's figures for one ladder of frequencies, in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/random.h"
#include "worker/measure/geometry.h"
#include "worker/measure/kinds.h"
#include "worker/measure/tensor_file.h"

namespace ropelab::measure {
namespace {

constexpr char kArtifact[] = "scores.safetensors";
constexpr int64_t kMaxPositions = 4096;  // S has positions^2 doubles

absl::Status CheckVector(const char* name, const google::protobuf::RepeatedField<double>& values,
                         int64_t size) {
  if (values.size() != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " has ", values.size(), " numbers, head_dim asks for ", size));
  }
  for (double value : values) {
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", name, " holds ", value, "; give finite numbers"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::RopeGeometryFigures& request) {
  const int64_t d = request.head_dim();
  if (d < 2 || d % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", d, "; RoPE needs an even number of at least 2"));
  }
  if (request.positions() < 1 || request.positions() > kMaxPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("positions is ", request.positions(), "; it can be 1 to ", kMaxPositions));
  }
  ROPELAB_RETURN_IF_ERROR(CheckVector("ladder of frequencies", request.theta(), d / 2));
  if (request.query_size() == 0 && request.key_size() == 0) return absl::OkStatus();  // drawn here
  ROPELAB_RETURN_IF_ERROR(CheckVector("query", request.query(), d));
  return CheckVector("key", request.key(), d);
}

// Samples of the geometry stream; docs/random-numbers.md.
constexpr uint64_t kVaryingContent = 0;
constexpr uint64_t kQueryAndKey = 1;

struct QueryAndKey {
  Vector query, key;
};

// As given, else drawn: the query's head_dim normals, then the key's.
QueryAndKey ReadQueryAndKey(const v1::RopeGeometryFigures& request) {
  if (request.query_size() > 0) {
    return {{request.query().begin(), request.query().end()}, {request.key().begin(), request.key().end()}};
  }
  engine::Philox stream(request.seed(), engine::Purpose::kGeometry, kQueryAndKey);
  QueryAndKey drawn{Vector(static_cast<size_t>(request.head_dim())),
                    Vector(static_cast<size_t>(request.head_dim()))};
  stream.Normals(drawn.query);
  stream.Normals(drawn.key);
  return drawn;
}

// Query and key of every entry (m, n) of S, rotated.
class Contents {
 public:
  Contents(const v1::RopeGeometryFigures& request, const Ladder& ladder, const QueryAndKey& repeated)
      : request_(request),
        ladder_(ladder),
        stream_(request.seed(), engine::Purpose::kGeometry, kVaryingContent) {
    if (request.content() == v1::Content::PER_ENTRY) return;
    const bool varies = request.content() == v1::Content::PER_POSITION;
    for (int64_t m = 0; m < request.positions(); ++m) {
      queries_.push_back(Rotated(ladder, varies ? Draw() : repeated.query, static_cast<double>(m)));
      keys_.push_back(Rotated(ladder, varies ? Draw() : repeated.key, static_cast<double>(m)));
    }
  }

  // Entries must be asked for row after row: content per entry is drawn as it is needed.
  double Score(int64_t m, int64_t n) {
    const double root = std::sqrt(static_cast<double>(request_.head_dim()));
    if (request_.content() != v1::Content::PER_ENTRY) return Dot(queries_[m], keys_[n]) / root;
    const Vector query = Rotated(ladder_, Draw(), static_cast<double>(m));
    return Dot(query, Rotated(ladder_, Draw(), static_cast<double>(n))) / root;
  }

 private:
  Vector Draw() {
    Vector values(static_cast<size_t>(request_.head_dim()));
    stream_.Normals(values);
    return values;
  }

  const v1::RopeGeometryFigures& request_;
  const Ladder& ladder_;
  engine::Philox stream_;
  std::vector<Vector> queries_, keys_;  // rotated, per position
};

void FillHands(const v1::RopeGeometryFigures& request, v1::GeometryFigures& figures) {
  for (int p = 0; p < request.theta_size(); ++p) {
    const ClockHand read = ReadHand(request.theta(p), request.positions());
    v1::Hand& hand = *figures.add_hands();
    hand.set_pair(p + 1);
    hand.set_theta(request.theta(p));
    hand.set_nearest_lag(read.nearest_lag);
    hand.set_nearest_distance(read.nearest_distance);
    hand.mutable_aliases()->Add(read.aliases.begin(), read.aliases.end());
  }
}

}  // namespace

absl::StatusOr<Outcome> MeasureRopeGeometry(const v1::RopeGeometryFigures& request, Recorder& recorder) {
  ROPELAB_RETURN_IF_ERROR(Check(request));
  const Ladder ladder{{request.theta().begin(), request.theta().end()},
                      request.layout() == v1::PairLayout::INTERLEAVED};
  const QueryAndKey repeated = ReadQueryAndKey(request);
  const int64_t n = request.positions();

  Contents contents(request, ladder, repeated);
  at::Tensor scores = at::empty({n, n}, at::kDouble);
  Vector entries(static_cast<size_t>(n * n));
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < n; ++column) entries[row * n + column] = contents.Score(row, column);
    ROPELAB_RETURN_IF_ERROR(recorder.Progress(static_cast<double>(row + 1), static_cast<double>(n)));
  }
  std::copy(entries.begin(), entries.end(), scores.data_ptr<double>());

  v1::Reading reading;
  v1::GeometryFigures& figures = *reading.mutable_geometry();
  *figures.mutable_theta() = request.theta();
  figures.set_query_norm(Norm(repeated.query));
  for (int64_t position : request.norm_positions()) {
    figures.add_norms(Norm(Rotated(ladder, repeated.query, static_cast<double>(position))));
  }
  figures.set_largest_diagonal_std(LargestDiagonalDeviation(entries, n));
  const bool varies =
      request.content() == v1::Content::PER_ENTRY || request.content() == v1::Content::PER_POSITION;
  figures.set_largest_identity_error(
      varies ? std::numeric_limits<double>::quiet_NaN()
             : LargestIdentityError(ladder, entries, n, repeated.query, repeated.key));
  FillHands(request, figures);
  figures.set_scores_artifact(kArtifact);
  ROPELAB_RETURN_IF_ERROR(
      recorder.Emit(std::move(reading), {{kArtifact, TensorFile({{"S", scores}}, {"S"})}}));
  return Outcome{};
}

int64_t RopeGeometryBytes(const v1::RopeGeometryFigures& request) {
  const int64_t positions = std::clamp<int64_t>(request.positions(), 1, kMaxPositions);
  const int64_t entries = positions * (positions + 2 * static_cast<int64_t>(2 * request.theta_size()));
  return 5 * entries * static_cast<int64_t>(sizeof(double));
}

}  // namespace ropelab::measure
