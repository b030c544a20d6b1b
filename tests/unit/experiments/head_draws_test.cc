#include "server/experiments/head_draws.h"

#include <map>

#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

NamedHead At(int64_t layer, int64_t head) {
  return {layer, head, std::nullopt};
}

v1::ModelConfig ThreeLayersOfFour() {
  v1::ModelConfig config;
  config.set_layers(3);
  config.set_query_heads(4);
  return config;
}

const std::vector<NamedHead> kNamed = {At(0, 1), At(2, 0), At(2, 3)};

std::vector<NamedHead> Candidates() {
  return HeadsOutside(ThreeLayersOfFour(), kNamed);
}

TEST(HeadDraws, CandidatesAreTheOthersInOrder) {
  EXPECT_THAT(
      HeadsOutside(ThreeLayersOfFour(), {{2, 0, 5}, {0, 1, 3}, {2, 3, std::nullopt}}),
      ElementsAre(At(0, 0), At(0, 2), At(0, 3), At(1, 0), At(1, 1), At(1, 2), At(1, 3), At(2, 1), At(2, 2)));
}

// numpy's Philox(key=[42, 10], counter=[0, 0, draw, 0]) and the shuffle of docs/random-numbers.md.
TEST(HeadDraws, RandomHeadsAreNumpys) {
  EXPECT_THAT(RandomHeads(Candidates(), 3, 42, 0), ElementsAre(At(1, 0), At(1, 1), At(2, 2)));
  EXPECT_THAT(RandomHeads(Candidates(), 3, 42, 1), ElementsAre(At(0, 0), At(2, 1), At(2, 2)));
  EXPECT_THAT(RandomHeads(Candidates(), 3, 42, 9), ElementsAre(At(0, 3), At(1, 0), At(1, 1)));
}

TEST(HeadDraws, LayerMatchedHeadsAreTheFirstOfEachLayerInTheSameShuffle) {
  EXPECT_THAT(LayerMatchedHeads(kNamed, Candidates(), 42, 0), ElementsAre(At(0, 3), At(2, 1), At(2, 2)));
  EXPECT_THAT(LayerMatchedHeads(kNamed, Candidates(), 42, 1), ElementsAre(At(0, 0), At(2, 1), At(2, 2)));
  EXPECT_THAT(LayerMatchedHeads(kNamed, Candidates(), 42, 9), ElementsAre(At(0, 3), At(2, 1), At(2, 2)));
}

TEST(HeadDraws, ADrawHasAsManyHeadsAsThereAre) {
  EXPECT_EQ(RandomHeads(Candidates(), 20, 42, 0), Candidates());
  EXPECT_THAT(RandomHeads({}, 2, 42, 0), IsEmpty());
  const std::vector<NamedHead> most = {At(2, 0), At(2, 1), At(2, 3)};
  EXPECT_THAT(LayerMatchedHeads(most, HeadsOutside(ThreeLayersOfFour(), most), 42, 0), ElementsAre(At(2, 2)));
}

TEST(HeadDraws, ShortagesNameTheirLayers) {
  EXPECT_THAT(ShortagesOf(kNamed, Candidates()), IsEmpty());
  const std::vector<NamedHead> many = {At(0, 0), At(0, 1), At(0, 2), At(1, 0),
                                       At(2, 0), At(2, 1), At(2, 2), At(2, 3)};
  const std::vector<LayerShortage> shortages = ShortagesOf(many, HeadsOutside(ThreeLayersOfFour(), many));
  ASSERT_EQ(shortages.size(), 2u);
  EXPECT_EQ(DescribeShortages(shortages), "layer 0 has 1 of 3 heads, layer 2 has 0 of 4 heads");
}

// Of 9 candidates 3 are drawn: each in a third of the draws.
TEST(HeadDraws, EveryCandidateIsAsLikely) {
  std::map<std::pair<int64_t, int64_t>, int> drawn;
  for (int64_t draw = 0; draw < 3000; ++draw) {
    for (const NamedHead& head : RandomHeads(Candidates(), 3, 7, draw)) {
      ++drawn[{head.layer, head.head}];
    }
  }
  EXPECT_EQ(drawn.size(), 9u);
  for (const auto& [head, times] : drawn) {
    EXPECT_NEAR(times, 1000, 130) << head.first << " " << head.second;  // five standard deviations
  }
}

}  // namespace
}  // namespace ropelab::experiments
