// Writes unicode_classes_table.inc from the reference's answers:
//   node make_unicode_classes.mjs ../../../build/test-data/reference/tokenizers.node > unicode_classes_table.inc
// The binding is npm's @anush008/tokenizers-linux-x64-gnu 0.6.0; setup/fetch-test-data brings it.
// Each general category, and \w, is asked for as a Split pattern that removes its matches from a text of all
// code points: what is gone is in the class. A code point in no category or in two stops the script.
import {createRequire} from 'module';
import {resolve} from 'path';

const reference = createRequire(import.meta.url)(resolve(process.argv[2]));
const categories = ['Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mn', 'Mc', 'Me', 'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Ps', 'Pe',
  'Pi', 'Pf', 'Po', 'Sm', 'Sc', 'Sk', 'So', 'Zs', 'Zl', 'Zp', 'Cc', 'Cf', 'Cs', 'Co', 'Cn'];
const codePoints = [];
for (let c = 0; c <= 0x10FFFF; c++) if (c < 0xD800 || c > 0xDFFF) codePoints.push(c);

function members(regex) {
  const tokenizer = reference.Tokenizer.fromString(JSON.stringify({
    version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
    pre_tokenizer: {type: 'Split', pattern: {Regex: regex}, behavior: 'Removed', invert: false},
    post_processor: null, decoder: null, model: {type: 'BPE', vocab: {}, merges: []},
  }));
  const splitter = tokenizer.getPreTokenizer(), inside = new Uint8Array(0x110000);
  for (let at = 0; at < codePoints.length; at += 4096) {
    const part = codePoints.slice(at, at + 4096), left = new Set();
    for (const [piece] of splitter.preTokenizeString(String.fromCodePoint(...part)))
      for (const character of piece) left.add(character.codePointAt(0));
    for (const c of part) if (!left.has(c)) inside[c] = 1;
  }
  return inside;
}

const category = new Uint8Array(0x110000).fill(255);
categories.forEach((name, index) => {
  const inside = members(`\\p{${name}}`);
  for (const c of codePoints) {
    if (!inside[c]) continue;
    if (category[c] !== 255) throw new Error(`U+${c.toString(16)} is in two categories`);
    category[c] = index;
  }
});
for (const c of codePoints) if (category[c] === 255) throw new Error(`U+${c.toString(16)} is in no category`);
for (let c = 0xD800; c <= 0xDFFF; c++) category[c] = categories.indexOf('Cs');

const word = members('\\w'), entries = [];
let previous = -1;
for (let c = 0; c <= 0x10FFFF; c++) {
  const value = category[c] | (word[c] << 7);
  if (value !== previous) entries.push('0x' + (c * 256 + value).toString(16).toUpperCase());
  previous = value;
}
console.log(`// Written by make_unicode_classes.mjs; do not edit. Each entry is (first code point << 8) | (in \\w << 7) |
// general category, and holds up to the next entry's first code point. Categories in order:
// ${categories.join(' ')}.
// clang-format off`);
for (let i = 0; i < entries.length; i += 10) console.log(entries.slice(i, i + 10).join(', ') + ',');
