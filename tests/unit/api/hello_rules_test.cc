#include "server/api/hello_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace ropelab::api {
namespace {

using testing::HasSubstr;

v1::Hello Plain() {
  v1::Hello hello;
  hello.set_worker_id("w");
  hello.set_incarnation("i");
  hello.set_protocol_first(1);
  hello.set_protocol_last(1);
  hello.mutable_numerics()->set_hash("0123456789abcdef");
  v1::ModelAnnouncement* model = hello.add_models();
  model->set_name("tiny");
  v1::ModelConfig* config = model->mutable_config();
  config->set_layers(2);
  config->set_query_heads(4);
  config->set_kv_heads(2);
  config->set_head_dim(8);
  config->set_hidden_size(32);
  config->set_vocabulary(100);
  config->set_max_positions(64);
  return hello;
}

TEST(CheckHello, TakesAPlainOneAndRefusesNamesThatWouldNotFitALine) {
  EXPECT_TRUE(CheckHello(Plain()).ok());
  for (const std::string& name : {std::string(), std::string("two\nlines"), std::string(201, 'x')}) {
    v1::Hello hello = Plain();
    hello.set_worker_id(name);
    EXPECT_EQ(CheckHello(hello).code(), absl::StatusCode::kInvalidArgument) << name;
    hello = Plain();
    hello.set_incarnation(name);
    EXPECT_EQ(CheckHello(hello).code(), absl::StatusCode::kInvalidArgument) << name;
    hello = Plain();
    hello.mutable_numerics()->set_hash(name);
    EXPECT_EQ(CheckHello(hello).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(CheckHello, ItsMessageCannotSteerATerminal) {
  v1::Hello hello = Plain();
  hello.set_worker_id("w\x1B[31m");
  EXPECT_EQ(CheckHello(hello).message().find('\x1B'), absl::string_view::npos);
}

TEST(CheckAnnouncements, KeepsAPlainOneAndTakesOutNamesThatWouldNotFitALine) {
  v1::Hello hello = Plain();
  *hello.add_models() = hello.models(0);
  hello.mutable_models(1)->set_name("two\nlines");
  CheckAnnouncements(hello);
  ASSERT_EQ(hello.models_size(), 1);
  EXPECT_EQ(hello.models(0).name(), "tiny");
  EXPECT_EQ(hello.models(0).problem(), "");
}

TEST(CheckAnnouncements, ANumberThatCannotBeIsTheModelsProblem) {
  const auto problem = [](auto&& change) {
    v1::Hello hello = Plain();
    change(*hello.mutable_models(0)->mutable_config());
    CheckAnnouncements(hello);
    return hello.models(0).problem();
  };
  EXPECT_THAT(problem([](v1::ModelConfig& config) { config.set_layers(int64_t{1} << 62); }),
              HasSubstr("layers"));
  EXPECT_THAT(problem([](v1::ModelConfig& config) { config.set_head_dim(-1); }), HasSubstr("head_dim"));
  EXPECT_THAT(problem([](v1::ModelConfig& config) { config.set_kv_heads(0); }), HasSubstr("kv_heads"));
  EXPECT_THAT(problem([](v1::ModelConfig& config) { config.set_kv_heads(3); }), HasSubstr("multiple"));
  EXPECT_THAT(
      problem([](v1::ModelConfig& config) { config.add_inv_freq(std::numeric_limits<double>::quiet_NaN()); }),
      HasSubstr("inv_freq"));
}

TEST(CheckAnnouncements, AModelWithAProblemKeepsIt) {
  v1::Hello hello = Plain();
  hello.mutable_models(0)->clear_config();
  hello.mutable_models(0)->set_problem("config.json is not JSON");
  CheckAnnouncements(hello);
  EXPECT_EQ(hello.models(0).problem(), "config.json is not JSON");
}

}  // namespace
}  // namespace ropelab::api
