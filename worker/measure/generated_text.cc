#include "worker/measure/generated_text.h"

#include <array>
#include <span>
#include <string_view>

namespace ropelab::measure {
namespace {

// <name> stands for a word of the list of that name.
constexpr std::string_view kTemplates[] = {
    "<time>, the <person> <action> a <adjective> <thing> near <place>.",
    "The <person> and the <person> met at <place> and spoke about the <thing>.",
    "From <place> one could see how <weather> moved slowly over the fields.",
    "<time>, a <animal> crossed the path behind <place>.",
    "Nobody at <place> remembered who had <action> the <adjective> <thing>.",
    "The price of <crop> had not changed, so the <person> bought a <thing> instead.",
    "A <adjective> <thing> stood beside the door of <place>, and <weather> reached it late in the day.",
    "The <person> <action> the <thing> <manner>.",
    "They stored the <crop> and the <crop> in a <adjective> shed not far from <place>.",
    "Every year the <person> walked from <place> to <place> to trade <crop> for a <thing>.",
    "It was said that the <animal> came back whenever <weather> settled over <place>.",
    "While the <person> waited, the <animal> rested in the shade of <place>.",
    "<time>, the <person> wrote down how many <crop> were left and <action> the <thing> <manner>.",
    "The <thing> was <adjective>, but the <person> kept it because it came from <place>.",
    "Along the way the <person> passed a <animal>, a <thing> and a row of <crop>.",
    "Seen from <place>, the road to <place> looked <adjective> and almost empty.",
};

constexpr std::string_view kActions[] = {"borrowed", "carried", "cleaned", "described", "found", "measured",
                                         "moved",    "noticed", "painted", "repaired",  "sold",  "wrapped"};
constexpr std::string_view kAdjectives[] = {"borrowed", "broad",  "dusty",  "faded",  "familiar", "green",
                                            "heavy",    "light",  "modest", "narrow", "painted",  "plain",
                                            "round",    "silver", "simple", "woven"};
constexpr std::string_view kAnimals[] = {"cat",  "crow", "deer",  "fox",   "goat",     "goose",
                                         "hare", "hen",  "heron", "horse", "sheepdog", "swallow"};
constexpr std::string_view kCrops[] = {"apples", "beans", "cabbages", "cherries", "leeks",
                                       "onions", "pears", "plums",    "potatoes", "turnips"};
constexpr std::string_view kManners[] = {"as the custom was", "as usual",           "for the second time",
                                         "in a calm voice",   "with a steady hand", "with great care",
                                         "with some help",    "without any hurry"};
constexpr std::string_view kPersons[] = {
    "baker",     "carpenter", "clerk",   "cook",     "doctor",    "driver",    "farmer",  "gardener",
    "librarian", "mason",     "miller",  "musician", "neighbour", "painter",   "potter",  "printer",
    "sailor",    "shepherd",  "student", "tailor",   "teacher",   "traveller", "visitor", "weaver"};
constexpr std::string_view kPlaces[] = {
    "the eastern gate",  "the lighthouse",     "the long valley",  "the market hall",
    "the northern road", "the old harbour",    "the orchard",      "the quiet library",
    "the river bank",    "the small station",  "the stone bridge", "the town garden",
    "the upper meadow",  "the village square", "the wide field",   "the workshop"};
constexpr std::string_view kThings[] = {"barrel",   "basket",   "bell",    "bicycle", "blanket",
                                        "candle",   "cart",     "chair",   "clock",   "fishing net",
                                        "kettle",   "ladder",   "lantern", "letter",  "map",
                                        "notebook", "raincoat", "rope",    "window",  "wooden box"};
constexpr std::string_view kTimes[] = {
    "After the harvest",      "At the end of the week",    "Before the rain came",
    "During the long winter", "In the early morning",      "In the middle of spring",
    "Late in the afternoon",  "On a quiet evening",        "Once the road was clear",
    "Shortly after noon",     "Towards the end of summer", "When the fair was over"};
constexpr std::string_view kWeathers[] = {"a bank of clouds", "a light wind",  "a soft rain",
                                          "a thin fog",       "a warm breeze", "the evening light",
                                          "the first snow",   "the low sun"};

struct List {
  std::string_view name;
  std::span<const std::string_view> words;
};
constexpr std::array kLists = {
    List{"action", kActions},   List{"adjective", kAdjectives}, List{"animal", kAnimals},
    List{"crop", kCrops},       List{"manner", kManners},       List{"person", kPersons},
    List{"place", kPlaces},     List{"thing", kThings},         List{"time", kTimes},
    List{"weather", kWeathers},
};

std::string_view Draw(std::string_view name, Philox& stream) {
  for (const List& list : kLists) {
    if (list.name == name) return list.words[stream.Integer(list.words.size())];
  }
  return {};  // every template names a list of the table
}

}  // namespace

std::string GeneratedSentences::Next() {
  std::string_view rest = kTemplates[stream_.Integer(std::size(kTemplates))];
  std::string sentence;
  for (size_t open = rest.find('<'); open != std::string_view::npos; open = rest.find('<')) {
    const size_t close = rest.find('>', open);
    sentence += rest.substr(0, open);
    sentence += Draw(rest.substr(open + 1, close - open - 1), stream_);
    rest.remove_prefix(close + 1);
  }
  sentence += rest;
  return sentence;
}

}  // namespace ropelab::measure
