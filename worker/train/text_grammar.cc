#include "worker/train/text_grammar.h"

#include <array>
#include <span>
#include <string_view>

namespace ropelab::train {
namespace {

// <list> stands for a word of the list of that name.
constexpr std::string_view kTemplates[] = {
    "Our <kin> keeps the <tool> in a drawer under the <furniture>.",
    "If the <vehicle> is late, we shall <verb> without it and eat the <food> on the way.",
    "\"Where is my <tool>?\" asked the <kin>, and looked behind the <furniture>.",
    "It took <number> days to <verb> the <room>, and nobody had counted on <trouble>.",
    "The <quality> <vehicle> stopped between <town> and <town> because of <trouble>.",
    "You may <verb> the <furniture> only after the <food> has been put away.",
    "In <month> the <kin> wrote a letter to <town> and asked for <number> new <tool> boxes.",
    "Few people in <town> would <verb> a <quality> <furniture> for so little money.",
    "There were <number> chairs in the <room>, a <furniture>, and one <quality> <tool>.",
    "My <kin> said that <food> tastes better in <month> than at any other time.",
    "Why should anyone <verb> the <vehicle> when the way to <town> is so short?",
    "The <colour> door of the <room> was open, and the smell of <food> came out.",
    "A <colour> <vehicle> and a <colour> <vehicle> stood side by side in <town>.",
    "We heard about <trouble> in <town>, so the <kin> stayed at home until <month>.",
    "Nothing in the <room> was <colour> except the <furniture> that came from <town>.",
    "First they had to <verb> the <tool>, then to <verb> the <furniture>, and then to rest.",
    "Between <month> and <month> the <room> is used by the <kin> and by <number> guests.",
    "The <kin> likes <food>, the guests like <food>, and the cook can make both.",
    "Without a <tool> it is hard to <verb> anything, said the <kin> from the <room>.",
    "Page <number> of the book tells how the people of <town> learned to <verb>.",
    "Before the visit the <furniture> was painted <colour>, which the <kin> found <quality>.",
    "They counted <number> boats, <number> carts and a single <vehicle> on the way to <town>.",
};

constexpr std::string_view kColours[] = {"black", "blue", "brown", "grey",  "orange",
                                         "pink",  "red",  "white", "yellow"};
constexpr std::string_view kFoods[] = {"bread",  "butter", "cheese", "fish", "honey", "milk",
                                       "pepper", "rice",   "salt",   "soup", "sugar", "tea"};
constexpr std::string_view kFurniture[] = {"bench",  "bookcase", "cupboard", "desk",  "lamp",
                                           "mirror", "piano",    "shelf",    "stove", "table"};
constexpr std::string_view kKin[] = {"aunt",        "brother", "cousin", "daughter", "father", "grandmother",
                                     "grandfather", "mother",  "nephew", "niece",    "sister", "uncle"};
constexpr std::string_view kMonths[] = {"April", "August", "December", "February", "January", "July",
                                        "June",  "March",  "May",      "November", "October", "September"};
constexpr std::string_view kNumbers[] = {"12", "15", "20", "24",  "30",    "36",    "48",   "50",
                                         "64", "75", "90", "two", "three", "seven", "nine", "eleven"};
constexpr std::string_view kQualities[] = {"careful",  "cheap", "clever", "famous",  "honest", "large",
                                           "pleasant", "quick", "small",  "strange", "useful"};
constexpr std::string_view kRooms[] = {"attic",   "cellar", "corridor", "garage",
                                       "kitchen", "office", "pantry",   "study"};
constexpr std::string_view kTools[] = {"brush", "compass", "hammer",   "key",   "needle", "pencil",
                                       "ruler", "saw",     "scissors", "spade", "torch",  "wrench"};
constexpr std::string_view kTowns[] = {"Abernant", "Brookfield", "Castlemoor", "Dunhill",
                                       "Eastwick", "Ferndale",   "Greywater",  "Highbury",
                                       "Longford", "Milltown",   "Northam",    "Westbridge"};
constexpr std::string_view kTroubles[] = {"a broken wheel", "a fallen tree", "a long queue", "a lost ticket",
                                          "a strike",       "heavy snow",    "low water",    "thick smoke"};
constexpr std::string_view kVehicles[] = {"boat",   "bus",   "ferry", "lorry",
                                          "sledge", "train", "tram",  "wagon"};
constexpr std::string_view kVerbs[] = {"borrow", "build", "carry", "close", "draw",   "lift",  "mend",
                                       "move",   "open",  "paint", "sell",  "travel", "watch", "weigh"};

struct List {
  std::string_view name;
  std::span<const std::string_view> words;
};
constexpr std::array kLists = {
    List{"colour", kColours},    List{"food", kFoods},       List{"furniture", kFurniture},
    List{"kin", kKin},           List{"month", kMonths},     List{"number", kNumbers},
    List{"quality", kQualities}, List{"room", kRooms},       List{"tool", kTools},
    List{"town", kTowns},        List{"trouble", kTroubles}, List{"vehicle", kVehicles},
    List{"verb", kVerbs},
};

std::string_view Draw(std::string_view name, Philox& stream) {
  for (const List& list : kLists) {
    if (list.name == name) return list.words[stream.Integer(list.words.size())];
  }
  return {};  // every template names a list of the table
}

}  // namespace

std::string TrainingSentence(Philox& stream) {
  std::string_view rest = kTemplates[stream.Integer(std::size(kTemplates))];
  std::string sentence;
  for (size_t open = rest.find('<'); open != std::string_view::npos; open = rest.find('<')) {
    const size_t close = rest.find('>', open);
    sentence += rest.substr(0, open);
    sentence += Draw(rest.substr(open + 1, close - open - 1), stream);
    rest.remove_prefix(close + 1);
  }
  sentence += rest;
  return sentence;
}

}  // namespace ropelab::train
