#include <utility>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

void Problems::Add(std::string field, std::string value, std::string remedy) {
  v1::FieldProblem problem;
  problem.set_field(std::move(field));
  problem.set_value(std::move(value));
  problem.set_remedy(std::move(remedy));
  problems_.push_back(std::move(problem));
}

void Problems::Warn(std::string sentence) {
  warnings_.push_back(std::move(sentence));
}

}  // namespace ropelab::experiments
