#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/rope_geometry.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

constexpr double kTurn = 6.283185307179586;  // 2 pi

TableBuilder FrequenciesTable() {
  return TableBuilder("frequencies", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                         {"layer", v1::Column::INTEGER, true},
                                                         {"head", v1::Column::INTEGER, true},
                                                         {"pair", v1::Column::INTEGER, true},
                                                         {"theta", v1::Column::REAL, false},
                                                         {"amplitude", v1::Column::REAL, false},
                                                         {"phase", v1::Column::REAL, false},
                                                         {"mean_inp", v1::Column::REAL, false},
                                                         {"mean_abs_inp", v1::Column::REAL, false},
                                                         {"inp_at_lag", v1::Column::REAL, false},
                                                         {"std_inp", v1::Column::REAL, false},
                                                         {"active", v1::Column::BOOLEAN, false}}));
}

// A run without a model: model and dtype are empty text.
TableBuilder& Lead(TableBuilder& table, const Context& context) {
  return table.Text("").Text("").Text(context.numerics_class);
}

void AddSeries(TableBuilder& series, const Context& context, const std::string& name, int64_t x, double y) {
  Lead(series, context).Text(name).Real(static_cast<double>(x)).Real(y);
}

// `undefined_because` is read where `value` is not a number.
void AddStatistic(TableBuilder& statistics, const Context& context, const std::string& name,
                  std::optional<int64_t> seed, double value, const std::string& undefined_because = "") {
  const bool defined = std::isfinite(value);
  Lead(statistics, context).Text(name).Text(std::nullopt).Text(std::nullopt).Real(std::nullopt).Integer(seed);
  statistics.Real(defined ? std::optional<double>(value) : std::nullopt);
  statistics.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Integer(std::nullopt);
  statistics.Text(defined ? std::nullopt : std::optional<std::string>(undefined_because));
}

void AddHand(const v1::Hand& hand, const Context& context, std::optional<int64_t> seed, TableBuilder& series,
             TableBuilder& statistics) {
  const std::string name = absl::StrCat("hand_", hand.pair());
  AddStatistic(statistics, context, name + "_nearest_lag", seed, static_cast<double>(hand.nearest_lag()));
  AddStatistic(statistics, context, name + "_nearest_distance", seed, hand.nearest_distance(),
               "no lag of 2 or more");
  AddStatistic(statistics, context, name + "_aliases", seed, static_cast<double>(hand.aliases_size()));
  for (const int64_t lag : hand.aliases()) {
    const double angle = hand.theta() * static_cast<double>(lag);
    AddSeries(series, context, name + "_alias", lag, std::fabs(std::remainder(angle, kTurn)));
  }
}

absl::StatusOr<v1::Reading> TheReading(StageReadings& readings) {
  std::optional<v1::Reading> found;
  ROPELAB_RETURN_IF_ERROR(
      readings.ForEach(1, [&](int64_t, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (found.has_value() || !reading.has_geometry()) {
          return absl::InternalError("a rope_geometry task gives exactly one reading, of its figures");
        }
        found = reading;
        return absl::OkStatus();
      }));
  if (!found.has_value()) {
    return absl::InternalError("the rope_geometry task gave no reading");
  }
  return *found;
}

}  // namespace

absl::StatusOr<Results> RopeGeometryExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                       StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(const v1::Reading reading, TheReading(readings));
  const v1::GeometryFigures& figures = reading.geometry();
  const v1::RopeGeometry& geometry = spec.rope_geometry();
  if (figures.norms_size() != geometry.norm_positions_size()) {
    return absl::InternalError(absl::StrCat("the figures hold ", figures.norms_size(), " norms for ",
                                            geometry.norm_positions_size(), " positions"));
  }
  std::optional<int64_t> seed;
  if (DrawsFromSeed(geometry)) {
    seed = static_cast<int64_t>(spec.seeds(0));
  }
  TableBuilder frequencies = FrequenciesTable(), series = SeriesTable(), statistics = StatisticsTable();
  for (int pair = 0; pair < figures.theta_size(); ++pair) {
    Lead(frequencies, context).Integer(seed).Integer(std::nullopt).Integer(std::nullopt).Integer(pair + 1);
    frequencies.Real(figures.theta(pair)).Real(std::nullopt).Real(std::nullopt).Real(std::nullopt);
    frequencies.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Boolean(std::nullopt);
  }
  for (int i = 0; i < figures.norms_size(); ++i) {
    AddSeries(series, context, "norm", geometry.norm_positions(i), figures.norms(i));
  }
  const std::string not_repeated =
      "the identity S[m,n] = q'R(n-m)k/sqrt(d) holds for one repeated token only";
  AddStatistic(statistics, context, "query_norm", seed, figures.query_norm());
  AddStatistic(statistics, context, "largest_diagonal_std", seed, figures.largest_diagonal_std());
  AddStatistic(statistics, context, "largest_identity_error", seed, figures.largest_identity_error(),
               not_repeated);
  for (const v1::Hand& hand : figures.hands()) {
    AddHand(hand, context, seed, series, statistics);
  }
  Results results;
  results.tables.push_back(frequencies.Finish(true));
  results.tables.push_back(series.Finish(true));
  results.tables.push_back(statistics.Finish(true));
  for (const v1::ArtifactName& artifact : reading.artifacts()) {
    v1::ArtifactInfo& info = results.artifacts.emplace_back();
    info.set_name(artifact.name());
    info.set_sha256(artifact.sha256());
    info.set_bytes(artifact.bytes());
  }
  return results;
}

}  // namespace ropelab::experiments
