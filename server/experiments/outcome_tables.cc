#include "server/experiments/outcome_tables.h"

#include "server/experiments/needles.h"

namespace ropelab::experiments {

TableBuilder ConditionsTable() {
  return TableBuilder("conditions", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                        {"condition", v1::Column::TEXT, true},
                                                        {"detector", v1::Column::TEXT, true},
                                                        {"control", v1::Column::TEXT, true},
                                                        {"draw", v1::Column::INTEGER, true},
                                                        {"target", v1::Column::TEXT, true},
                                                        {"stage", v1::Column::TEXT, true},
                                                        {"positions", v1::Column::TEXT, true},
                                                        {"heads", v1::Column::INTEGER, false},
                                                        {"dims", v1::Column::INTEGER, true},
                                                        {"dose", v1::Column::REAL, true},
                                                        {"coverage", v1::Column::REAL, true},
                                                        {"rank", v1::Column::INTEGER, true},
                                                        {"layer", v1::Column::INTEGER, true},
                                                        {"head", v1::Column::INTEGER, true},
                                                        {"context_length", v1::Column::INTEGER, true},
                                                        {"depth", v1::Column::REAL, true},
                                                        {"accuracy", v1::Column::REAL, false},
                                                        {"samples", v1::Column::INTEGER, false},
                                                        {"perplexity", v1::Column::REAL, false},
                                                        {"saved_parameters", v1::Column::INTEGER, false}}));
}

void AddConditionRow(const ConditionKey& key, const ConditionFigures& figures, TableBuilder& conditions) {
  conditions.Text(key.model).Text(key.dtype).Text(key.numerics_class).Integer(key.seed);
  conditions.Text(key.condition).Text(key.detector).Text(key.control).Integer(key.draw);
  conditions.Text(key.target).Text(key.stage).Text(key.positions).Integer(key.heads).Integer(key.dims);
  conditions.Real(key.dose).Real(key.coverage).Integer(key.rank).Integer(key.layer).Integer(key.head);
  conditions.Integer(figures.context_length).Real(figures.depth).Real(figures.accuracy);
  conditions.Integer(figures.samples).Real(figures.perplexity).Integer(figures.saved_parameters);
}

TableBuilder OutcomesTable() {
  return TableBuilder("outcomes", WithLeadingColumns({{"condition", v1::Column::TEXT, true},
                                                      {"detector", v1::Column::TEXT, true},
                                                      {"control", v1::Column::TEXT, true},
                                                      {"draw", v1::Column::INTEGER, true},
                                                      {"dose", v1::Column::REAL, true},
                                                      {"coverage", v1::Column::REAL, true},
                                                      {"rank", v1::Column::INTEGER, true},
                                                      {"layer", v1::Column::INTEGER, true},
                                                      {"head", v1::Column::INTEGER, true},
                                                      {"checkpoint", v1::Column::TEXT, true},
                                                      {"context_length", v1::Column::INTEGER, true},
                                                      {"depth", v1::Column::REAL, true},
                                                      {"seed", v1::Column::INTEGER, true},
                                                      {"sample", v1::Column::INTEGER, true},
                                                      {"correct", v1::Column::BOOLEAN, false},
                                                      {"generated", v1::Column::TEXT, false}}));
}

void AddOutcomeRows(const ConditionKey& key, const OutcomeAnswers& answers, size_t measured,
                    TableBuilder& outcomes) {
  for (size_t i = 0; i < answers.samples().size(); ++i) {
    const v1::NeedleSample& sample = answers.samples()[i];
    outcomes.Text(key.model).Text(key.dtype).Text(key.numerics_class).Text(key.condition);
    outcomes.Text(key.detector).Text(key.control).Integer(key.draw).Real(key.dose).Real(key.coverage);
    outcomes.Integer(key.rank).Integer(key.layer).Integer(key.head).Text(std::nullopt);
    outcomes.Integer(sample.context_length()).Real(sample.depth()).Integer(key.seed);
    outcomes.Integer(sample.index()).Boolean(answers.Correct(measured, i));
    outcomes.Text(answers.Generated(measured, i));
  }
}

ConditionKey KeyOf(const OutcomeFields& fields, const OutcomeGroup& group, const OutcomeCondition& line,
                   const std::string& numerics_class) {
  ConditionKey key = {.model = group.label,
                      .dtype = group.dtype,
                      .numerics_class = numerics_class,
                      .seed = group.seed,
                      .condition = line.name};
  if (line.heads.empty()) {
    return key;  // the model as it is
  }
  key.detector = group.conditions.detector;
  key.control = line.control.empty() ? std::nullopt : std::optional<std::string>(line.control);
  key.draw = line.draw;
  if (!fields.knockout()) {
    key.target = LowerCase(v1::Target::Value_Name(*fields.target));
    key.stage = LowerCase(v1::EditStage::Value_Name(*fields.stage));
  }
  key.positions = PositionsName(fields);
  key.heads = static_cast<int64_t>(line.heads.size());
  key.dims = line.dims;
  key.dose = line.point.dose;
  key.coverage = line.point.coverage;
  key.layer = line.point.layer;
  key.head = line.point.head;
  return key;
}

}  // namespace ropelab::experiments
