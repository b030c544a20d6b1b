#include "client/commands.h"

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ropelab::client {
namespace {

void DeclareId(CLI::App* command, Options* options) {
  command->add_option("ID", options->id, "Experiment, as submit and list print it")->required();
}

void DeclareStudyId(CLI::App* command, Options* options) {
  command->add_option("ID", options->id, "Experiment or study, as submit and list print it")->required();
}

void DeclareSpec(CLI::App* command, Options* options) {
  command
      ->add_option("SPEC", options->spec_path,
                   "Spec file, text format (.textproto) or .json; - for standard input")
      ->required();
  command
      ->add_option("--set", options->assignments,
                   "Change a field of the spec, as in slash_detection.threshold=0.2; in a study "
                   "experiments.NAME.slash_detection.threshold=0.2; model takes the place of models, and "
                   "models of model; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH=VALUE");
}

void DeclareSubmit(CLI::App* command, Options* options) {
  DeclareSpec(command, options);
  command->add_flag(
      "--wait", options->wait,
      "Follow it to its end: exit 0 only when every experiment is done. Ctrl-C ends the following, not "
      "the experiment");
}

void DeclareList(CLI::App* command, Options* options) {
  command->add_option("--user", options->user, "Only this owner's")->type_name("NAME");
  command
      ->add_option("--state", options->state,
                   "Only waiting, queued, running, reducing, done, failed or cancelled")
      ->type_name("STATE");
  command->add_option("--kind", options->kind, "Only this kind, as in slash_detection")->type_name("KIND");
  command->add_option("--model", options->model, "Only those on this model")->type_name("NAME");
  command->add_option("--tag", options->tag, "Only those with this tag")->type_name("TAG");
}

void DeclareResults(CLI::App* command, Options* options) {
  DeclareId(command, options);
  auto* table = command
                    ->add_option("--table", options->table,
                                 "Print this table (with --json: one JSON object a row and line)")
                    ->type_name("NAME");
  command
      ->add_option("--format", options->format,
                   "How: for people, with commas, or one JSON object a line; default: what the ending of -o "
                   "says (.csv, .jsonl, .txt for people), else table")
      ->check(CLI::IsMember({"table", "csv", "jsonl"}))
      ->needs(table);
  command
      ->add_option(
          "--where", options->conditions,
          "Only the rows whose COLUMN holds VALUE; nothing after = for an empty cell; may be repeated, "
          "and a row must meet all")
      ->type_name("COLUMN=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(table);
  auto* artifact = command->add_option("--artifact", options->artifact, "Fetch this artifact; needs -o")
                       ->type_name("NAME");
  auto* output = command->add_option("-o,--output", options->output_path, "Write to this file instead")
                     ->type_name("FILE");
  artifact->needs(output)->excludes(table);
}

void DeclareCorpora(CLI::App* command, Options* options) {
  CLI::App* add =
      command->add_subcommand("add", "Send a corpus to the server, which keeps it by its content");
  command->require_subcommand(0, 1);
  add->add_option("NAME", options->corpus_name, "What specs call it")->required();
  add->add_option(
         "PATH", options->corpus_path,
         "A .jsonl file with a document a line, a folder with a document in each *.txt file, or a .txt file, "
         "which is one document; here, not on the server's host")
      ->required();
  add->add_option("--kind", options->corpus_kind, "What PATH holds (default: as its name says)")
      ->check(CLI::IsMember({"text", "jsonl"}));
  add->footer(
      "Examples:\n"
      "  ropelab corpora add moby-dick moby-dick.jsonl\n"
      "  ropelab corpora add books ./books\n"
      "The same name and content again changes nothing; other content under a name is kept beside the "
      "first.");
  add->callback([options] { options->corpus_add = true; });
}

void DeclareHeads(CLI::App* command, Options* options) {
  command->require_subcommand(0, 1);
  const auto action = [&](const char* name, const char* summary) {
    CLI::App* sub = command->add_subcommand(name, summary);
    sub->callback([options, name] { options->heads_action = name; });
    return sub;
  };
  CLI::App* import = action("import", "Register published scores of heads, which specs then name");
  import->add_option("NAME", options->heads_name, "What specs call them: imported { name: \"NAME\" }")
      ->required();
  import
      ->add_option(
          "FILE", options->heads_file,
          "JSON {\"layer-head\": [scores...]}, layers and heads from 0, at most 32 MiB; - for standard "
          "input")
      ->required();
  import->footer(
      "Example:\n"
      "  ropelab heads import llama-2-7b scores.json\n"
      "The same name and content again changes nothing; other content under a name is kept beside the "
      "first.");
  action("list", "List what is registered")->footer("Example:\n  ropelab heads list");
  CLI::App* show =
      action("show", "How many heads reach 0.05, 0.1, ... 0.5 by their mean score, and the best heads");
  show->add_option("NAME", options->heads_name, "As registered, or NAME@HASH")->required();
  show->footer("Example:\n  ropelab heads show llama-2-7b");
  CLI::App* overlap =
      action("overlap", "How far the best heads are those that a retrieval detection ranks first");
  overlap->add_option("NAME", options->heads_name, "As registered, or NAME@HASH")->required();
  DeclareId(overlap, options);
  overlap
      ->add_option("--metric", options->heads_metric,
                   "By which metric the detection ranks heads: argmax (default), mass, copy_paper, "
                   "copy_paper_per_token or copy_wu")
      ->type_name("METRIC");
  overlap
      ->add_option(
          "--top", options->heads_top,
          "How many of the best heads of either side are compared (default: as many as the detection "
          "found)")
      ->check([](const std::string& value) {
        int64_t number = 0;
        return absl::SimpleAtoi(value, &number) && number > 0
                   ? std::string()
                   : absl::StrCat("\"", value, "\" is not a whole number from 1");
      })
      ->type_name("N");
  overlap->footer("Example:\n  ropelab heads overlap llama-2-7b e1 --metric copy_wu --top 30");
}

void DeclareUp(CLI::App* command, Options* options) {
  command->add_option("--data-dir", options->data_dir, "Where the server keeps everything; made when missing")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("--models", options->models_dir,
                   "Folder that holds one folder per model (default: models here or beside the program)")
      ->type_name("DIR");
}

void DeclareNothing(CLI::App*, Options*) {}

constexpr Command kCommands[] = {
    {"submit", "Submit a spec; prints the study's id, if it is one, then each experiment's",
     "ropelab submit studies/quickstart.textproto --set experiments.near.slash_detection.threshold=0.2 "
     "--wait",
     DeclareSubmit, RunSubmit},
    {"watch", "Follow an experiment or a study: progress, rate, time left, why it waits", "ropelab watch e1",
     DeclareStudyId, RunWatch},
    {"list", "List experiments, with the studies that they belong to",
     "ropelab list --state done --kind slash_detection", DeclareList, RunList},
    {"show", "Show one experiment", "ropelab show e1 --json", DeclareId, RunShow},
    {"cancel", "Cancel an experiment, or those of a study that have not ended; their readings stay",
     "ropelab cancel e4\n"
     "  ropelab cancel s1",
     DeclareStudyId, RunCancel},
    {"results", "List result tables and artifacts, print a table, fetch an artifact",
     "ropelab results e1\n"
     "  ropelab results e1 --table slash_scores --format csv > scores.csv\n"
     "  ropelab results e1 --table slash_heads --where dominant=true\n"
     "  ropelab results e3 --artifact scores.safetensors -o scores.safetensors",
     DeclareResults, RunResults},
    {"provenance", "Where every number came from: spec, models, numerics, tasks, workers",
     "ropelab provenance e1", DeclareId, RunProvenance},
    {"models", "List the models that workers announced", "ropelab models", DeclareNothing, RunModels},
    {"workers", "List the workers that are connected", "ropelab workers", DeclareNothing, RunWorkers},
    {"corpora", "List the corpora that prompts can be drawn from; `corpora add` registers one",
     "ropelab corpora\n"
     "  ropelab corpora add moby-dick moby-dick.jsonl",
     DeclareCorpora, RunCorpora},
    {"heads", "List published head scores; import, show, and compare them with a detection",
     "ropelab heads import llama-2-7b scores.json\n"
     "  ropelab heads show llama-2-7b\n"
     "  ropelab heads overlap llama-2-7b e1 --top 30",
     DeclareHeads, RunHeads},
    {"validate", "Check a spec and print what it would cost, without running it (asks the server)",
     "ropelab validate studies/quickstart.textproto", DeclareSpec, RunValidate},
    {"up", "Run a server and one worker on loopback, until Ctrl-C",
     "ropelab up --data-dir ~/ropelab-data --models ~/models", DeclareUp, RunUp},
};

}  // namespace

std::span<const Command> Commands() {
  return kCommands;
}

}  // namespace ropelab::client
