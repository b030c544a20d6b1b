#include "server/experiments/maps_results.h"

#include <bit>
#include <cmath>

#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

// Two cells a side over three tokens; the cell above the diagonal is empty.
v1::MapBlock Block(int64_t prompts, double value, bool cells) {
  v1::MapBlock block;
  block.set_layer(1);
  block.set_head(2);
  block.set_prompts(prompts);
  block.set_size(2);
  for (int i = 0; cells && i < 4; ++i) {
    block.add_cells(i == 1 ? std::nan("") : value + i);
  }
  for (int i = 0; !cells && i < 3; ++i) {
    block.add_diagonals(value * i);
  }
  return block;
}

MapsAccumulator Two() {
  MapsAccumulator maps;
  for (const auto& [prompts, value] : {std::pair(8, 0.25), std::pair(4, 1.0)}) {
    EXPECT_TRUE(maps.Add(Block(prompts, value, true)).ok());
    EXPECT_TRUE(maps.Add(Block(prompts, value, false)).ok());
  }
  return maps;
}

TEST(MapsAccumulator, WeighsBlocksByTheirPrompts) {
  const MapsAccumulator maps = Two();
  EXPECT_TRUE(maps.CheckComplete(12).ok());
  const HeadMap map = maps.Means().at({1, 2});
  EXPECT_EQ(map.prompts, 12);
  EXPECT_EQ(map.cells[0], 0.5);
  EXPECT_TRUE(std::isnan(map.cells[1]));
  EXPECT_EQ(map.cells[3], 3.5);
  EXPECT_EQ(map.diagonals[2], 1.0);
}

TEST(MapsAccumulator, RefusesWhatIsNotWhole) {
  EXPECT_THAT(std::string(Two().CheckComplete(13).message()),
              HasSubstr("the map of L1H2 is not whole: 12 of 13"));
  MapsAccumulator maps = Two();
  v1::MapBlock other = Block(8, 1, true);
  other.set_size(3);
  EXPECT_EQ(maps.Add(other).code(), absl::StatusCode::kInternal);
  other = Block(8, 1, true);
  other.set_first_cell(5);
  EXPECT_EQ(maps.Add(other).code(), absl::StatusCode::kInternal);
}

TEST(MapsAccumulator, MissesAHeadThatWasAskedFor) {
  MapsAccumulator maps = Two();
  maps.Expect({1, 2});
  EXPECT_TRUE(maps.CheckComplete(12).ok());
  maps.Expect({1, 3});
  EXPECT_THAT(std::string(maps.CheckComplete(12).message()),
              HasSubstr("the map of L1H3 is not whole: 0 of 12"));
}

// Read by hand: eight bytes of length, the header, the numbers.
TEST(MapsFile, IsASafetensorsFileOfDoubles) {
  const std::string file = MapsFile(Two().Means());
  const auto number = [&](size_t at) {
    uint64_t bits = 0;
    for (int i = 7; i >= 0; --i) {
      bits = bits << 8 | static_cast<unsigned char>(file[at + static_cast<size_t>(i)]);
    }
    return bits;
  };
  const size_t header = number(0);
  ASSERT_EQ(file.size(), 8 + header + 7 * 8);
  EXPECT_EQ(header % 8, 0u);
  const std::string text = file.substr(8, header);
  EXPECT_EQ(text.substr(0, text.find_last_of('}') + 1),
            R"({"L1H2.map":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]},)"
            R"("L1H2.diagonals":{"dtype":"F64","shape":[3],"data_offsets":[32,56]}})");
  EXPECT_EQ(std::bit_cast<double>(number(8 + header)), 0.5);
  EXPECT_EQ(number(8 + header + 8), 0x7ff8000000000000u);
  EXPECT_EQ(std::bit_cast<double>(number(8 + header + 48)), 1.0);
}

}  // namespace
}  // namespace ropelab::experiments
