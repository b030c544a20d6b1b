// Hugging Face's tokenizers library, as setup/fetch-test-data brings it, on the lines of a JSONL file ({"text": "..."} a line):
//   node reference_tokenizer.cjs BINDING.node TOKENIZER.json DOCUMENTS.jsonl speed ROUNDS   {"bytes", "tokens", "seconds": [...]}
//   node reference_tokenizer.cjs BINDING.node TOKENIZER.json DOCUMENTS.jsonl encode         {"ids", "offsets"} a line
const fs = require("fs");

const [binding, file, documents, task, rounds] = process.argv.slice(2);
const { Tokenizer } = require(binding);
const texts = fs.readFileSync(documents, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).text);
const tokenizer = Tokenizer.fromFile(file);

async function encode() {
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, { addSpecialTokens: true });
    console.log(JSON.stringify({ ids: encoding.getIds(), offsets: encoding.getOffsets() }));
  }
}

async function speed() {
  const seconds = [];
  let tokens = 0;
  for (let round = 0; round < Number(rounds); ++round) {
    tokens = 0;
    const start = performance.now();
    for (const text of texts) tokens += (await tokenizer.encode(text, null, { addSpecialTokens: false })).getLength();
    seconds.push((performance.now() - start) / 1000);
  }
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  console.log(JSON.stringify({ bytes, tokens, seconds }));
}

(task === "speed" ? speed : encode)();
