#include "server/api/experiment_service_provenance.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "google/protobuf/text_format.h"
#include "ropelab/v1/measurement.pb.h"
#include "server/api/catalogue.h"
#include "server/api/experiment_service_corpora.h"
#include "server/api/experiment_service_describe.h"
#include "server/api/experiment_service_models.h"
#include "server/store/experiments.h"
#include "server/store/models.h"
#include "server/store/tasks.h"

namespace ropelab::api {
namespace {

// A message holds 4 MiB: the spec, tasks in what it leaves, and the little rest (classes, the experiment).
constexpr size_t kPageBytes = 7 << 19;
constexpr size_t kSpecTextBytes = 2 << 20;

// Lists of numbers stay on one line. What is too long for a message (a spec of a million token ids) is cut
// with a remark; the hash beside it is of the whole.
bool PrintSpec(const v1::ExperimentSpec& spec, std::string* text) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  if (!printer.PrintToString(spec, text)) {
    return false;
  }
  if (text->size() > kSpecTextBytes) {
    const std::string remark = absl::StrCat("\n# cut: ", text->size(), " bytes in all\n");
    text->resize(kSpecTextBytes);
    text->append(remark);
  }
  return true;
}

absl::Status DescribeSpec(const store::ExperimentRow& row, v1::ExperimentSpec& spec,
                          v1::Provenance& response) {
  std::string text;
  if (!spec.ParseFromString(row.spec) || !PrintSpec(spec, &text)) {
    return absl::DataLossError(absl::StrCat("the stored spec of ", ExperimentId(row.id),
                                            " cannot be parsed: the database is damaged"));
  }
  response.set_resolved_spec_text(std::move(text));
  response.set_spec_hash(row.spec_hash);
  response.set_result_digest(row.result_digest);
  response.mutable_seeds()->CopyFrom(spec.seeds());
  return absl::OkStatus();
}

absl::Status DescribeModels(store::Connection& db, const store::ExperimentRow& row,
                            v1::Provenance& response) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::ModelRow> known, store::KnownModels(db));
  for (const std::string& line : Lines(row.models)) {
    const ModelLine wanted = ParseModelLine(line);
    for (const store::ModelRow& model : known) {
      if (model.announcement.name() == wanted.name &&
          model.announcement.weights_hash() == wanted.weights_hash &&
          (!wanted.tokenizer_hash.has_value() ||
           model.announcement.tokenizer_hash() == *wanted.tokenizer_hash)) {
        *response.add_models() = DescribeModel(model, {});
        break;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status DescribeClasses(store::Connection& db, const std::set<std::string>& classes,
                             v1::Provenance& response) {
  for (const std::string& hash : classes) {
    absl::StatusOr<v1::NumericsClass> numerics = store::GetNumericsClass(db, hash);
    if (numerics.ok()) {
      *response.add_numerics() = *std::move(numerics);
    } else if (absl::IsNotFound(numerics.status())) {
      response.add_numerics()->set_hash(hash);
    } else {
      return numerics.status();
    }
  }
  return absl::OkStatus();
}

// Every field `seed` of a measurement's parts, in the order of their fields, each value once.
void AddSeeds(const google::protobuf::Message& message, v1::TaskProvenance& shown) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::FieldDescriptor* seed = message.GetDescriptor()->FindFieldByName("seed");
  if (seed != nullptr && seed->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
    const uint64_t value = reflection.GetUInt64(message, seed);
    if (std::find(shown.seeds().begin(), shown.seeds().end(), value) == shown.seeds().end()) {
      shown.add_seeds(value);
    }
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      AddSeeds(reflection.GetMessage(message, field), shown);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      AddSeeds(reflection.GetRepeatedMessage(message, field, i), shown);
    }
  }
}

absl::StatusOr<v1::TaskProvenance> DescribeTask(store::Connection& db, const store::TaskRow& task,
                                                int64_t experiment) {
  v1::TaskProvenance shown;
  shown.set_task(task.id);
  shown.set_key(task.key);
  shown.set_stage(task.stage);
  shown.set_index(task.index);
  shown.set_kind(task.kind);
  shown.set_state(task.state);
  shown.set_digest(task.digest);
  shown.set_fed_ids_digest(task.fed_ids_digest);
  shown.set_readings(task.readings);
  shown.set_model(task.model);
  shown.set_weights_hash(task.weights_hash);
  ROPELAB_ASSIGN_OR_RETURN(const std::string body, store::ShortMeasurementOf(db, task.id));
  if (v1::Measurement measurement; measurement.ParseFromString(body)) {
    AddSeeds(measurement, shown);
  }
  shown.set_reused(task.measured_for != 0 && task.measured_for != experiment);
  if (shown.reused()) {
    shown.set_measured_for(ExperimentId(task.measured_for));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::AttemptRow> attempts, store::AttemptsOf(db, task.id));
  for (const store::AttemptRow& attempt : attempts) {
    v1::TaskAttempt& row = *shown.add_attempts();
    row.set_attempt(attempt.attempt);
    row.set_worker(attempt.worker);
    row.set_incarnation(attempt.incarnation);
    row.set_build(attempt.build);
    row.set_device(attempt.device);
    row.set_numerics_class(attempt.numerics_class);
    row.set_started_microseconds(attempt.started_us);
    row.set_ended_microseconds(attempt.ended_us);
    row.set_outcome(attempt.outcome.empty() ? "running" : attempt.outcome);
    row.set_cause(attempt.cause);
    row.set_device_milliseconds(attempt.device_ms);
  }
  return shown;
}

// One page of tasks, and the classes that their attempts ran in.
absl::Status DescribeTasks(store::Connection& db, int64_t experiment, int64_t skip,
                           std::set<std::string>& classes, v1::Provenance& response) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::StageRow> stages, store::StagesOf(db, experiment));
  size_t bytes = response.ByteSizeLong();
  for (const store::StageRow& stage : stages) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::TaskRow> tasks,
                             store::TasksOf(db, experiment, stage.stage));
    for (const store::TaskRow& task : tasks) {
      if (skip > 0) {
        --skip;
        continue;
      }
      if (bytes > kPageBytes && response.tasks_size() > 0) {
        response.set_more_tasks(true);
        return absl::OkStatus();
      }
      ROPELAB_ASSIGN_OR_RETURN(v1::TaskProvenance shown, DescribeTask(db, task, experiment));
      bytes += shown.ByteSizeLong();
      for (const v1::TaskAttempt& attempt : shown.attempts()) {
        classes.insert(attempt.numerics_class());
      }
      *response.add_tasks() = std::move(shown);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GetProvenance(const ServiceContext& context, const v1::ProvenanceRequest& request,
                           v1::Provenance& response) {
  if (request.skip_tasks() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("skip_tasks: value \"", request.skip_tasks(),
                                                   "\": the number of tasks received so far"));
  }
  response.set_server_build(Build());
  int64_t number = 0;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const store::ExperimentRow row, FindExperiment(db, request.id()));
    number = row.id;
    v1::ExperimentSpec spec;
    ROPELAB_RETURN_IF_ERROR(DescribeSpec(row, spec, response));
    ROPELAB_RETURN_IF_ERROR(DescribeModels(db, row, response));
    ROPELAB_RETURN_IF_ERROR(DescribeCorporaOf(db, context.store->corpora(), spec, response));
    std::set<std::string> classes = {row.numerics_class};
    ROPELAB_RETURN_IF_ERROR(DescribeTasks(db, row.id, request.skip_tasks(), classes, response));
    classes.erase("");
    ROPELAB_RETURN_IF_ERROR(DescribeClasses(db, classes, response));
    ROPELAB_ASSIGN_OR_RETURN(const int64_t divergences, store::DivergencesOf(db, row.id));
    response.set_divergent_readings(divergences);
    return absl::OkStatus();
  }));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<v1::Experiment> shown, DescribeExperiments(context, {number}));
  *response.mutable_experiment() = std::move(shown.front());
  return absl::OkStatus();
}

}  // namespace ropelab::api
