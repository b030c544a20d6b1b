// tokenizer_texts_decode TOKENIZER.json: for every line {"ids": [...], "skip_special": true or false} of
// standard input, the decoded text as a JSON string. The product decodes inside its measurements only; this
// lets a test ask.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/formats/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenizer_texts_decode TOKENIZER.json < LINES\n";
    return 2;
  }
  const auto tokenizer = ropelab::formats::Tokenizer::Read(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = nlohmann::json::parse(line);
    const auto ids = request.at("ids").get<std::vector<int32_t>>();
    const auto text = (*tokenizer)->Decode(ids, request.at("skip_special").get<bool>());
    if (!text.ok()) {
      std::cerr << text.status() << "\n";
      return 1;
    }
    std::cout << nlohmann::json(*text).dump() << "\n";
  }
}
