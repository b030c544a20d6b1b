// Tokenizes the documents of a JSONL file ({"text": "..."} a line) one after the other in one thread:
//   tokenizer_speed TOKENIZER.json DOCUMENTS.jsonl ROUNDS
// Prints {"bytes": ..., "tokens": ..., "seconds": [...], "load_seconds": ...}; reading JSON is not timed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "worker/formats/tokenizer/tokenizer.h"

namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: tokenizer_speed TOKENIZER.json DOCUMENTS.jsonl ROUNDS\n");
    return 2;
  }
  std::vector<std::string> documents;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) {
    documents.push_back(nlohmann::json::parse(line).at("text").get<std::string>());
  }
  const auto load_start = std::chrono::steady_clock::now();
  const auto tokenizer = ropelab::formats::Tokenizer::Read(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  nlohmann::json result = {{"load_seconds", SecondsSince(load_start)}, {"seconds", nlohmann::json::array()}};
  size_t bytes = 0;
  size_t tokens = 0;
  for (int round = 0; round < std::atoi(argv[3]); ++round) {
    bytes = tokens = 0;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& document : documents) {
      const auto encoding = (*tokenizer)->Encode(document, false);
      if (!encoding.ok()) {
        std::cerr << encoding.status() << "\n";
        return 1;
      }
      bytes += document.size();
      tokens += encoding->ids.size();
    }
    result["seconds"].push_back(SecondsSince(start));
  }
  result["bytes"] = bytes;
  result["tokens"] = tokens;
  std::cout << result.dump() << "\n";
  return 0;
}
