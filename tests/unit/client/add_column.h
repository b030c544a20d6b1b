// Columns of the slices that tests of the output formats make.
#pragma once

#include <string>

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

inline v1::Column* AddColumn(v1::TableSlice* slice, const std::string& name, v1::Column::Type type) {
  v1::Column* column = slice->add_columns();
  column->set_name(name);
  column->set_type(type);
  return column;
}

}  // namespace ropelab::client
