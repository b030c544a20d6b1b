#include "server/experiments/field_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace ropelab::experiments {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// Two numbers per component: the field's number and the index within a list (-1 for the list itself).
std::vector<int64_t> OrderOf(const std::string& path, const Descriptor* type) {
  std::vector<int64_t> order;
  for (const std::string& component : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    int64_t number = kUnknown;
    if (!component.empty() && component[0] == '#') {
      (void)absl::SimpleAtoi(component.substr(1), &number);
      order.insert(order.end(), {number, -1});
      break;
    }
    const size_t bracket = component.find('[');
    int64_t index = -1;
    if (bracket != std::string::npos) {
      (void)absl::SimpleAtoi(component.substr(bracket + 1, component.size() - bracket - 2), &index);
    }
    const FieldDescriptor* field =
        type == nullptr ? nullptr : type->FindFieldByName(component.substr(0, bracket));
    order.insert(order.end(), {field == nullptr ? kUnknown : field->number(), index});
    type = field == nullptr ? nullptr : field->message_type();
  }
  return order;
}

}  // namespace

std::vector<v1::FieldProblem> InFieldOrder(const std::vector<v1::FieldProblem>& problems,
                                           const Descriptor* root) {
  std::vector<std::pair<std::vector<int64_t>, v1::FieldProblem>> ordered;
  std::set<std::string> seen;
  for (const v1::FieldProblem& problem : problems) {
    if (seen.insert(problem.field()).second) {
      ordered.emplace_back(OrderOf(problem.field(), root), problem);
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<v1::FieldProblem> result;
  for (auto& [order, problem] : ordered) {
    result.push_back(std::move(problem));
  }
  return result;
}

std::string TopField(const std::string& path) {
  return path.substr(0, path.find_first_of(".["));
}

}  // namespace ropelab::experiments
