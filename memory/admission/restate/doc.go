// Package restate recognises a text that says again, in other words, what a row
// says that was read before.
//
// Agents write down what they said, read it back, store it reworded, and take
// the pile for proof. A restatement may therefore collapse onto the row it
// restates, but only if it adds nothing typed:
//
//	numbers, units, dates, links, identifiers, names    the same, in the same roles
//	polarity, modality, qualifiers, mood, tense         the same
//	number of claims                                    the same
//	the other words                                     the same, up to a small closed lexicon
//
// [Of] brings a text to a canonical sequence: frames ("As noted earlier,") come
// off, quantities and dates take one notation, wordings of a closed table are
// exchanged, and a closed set of sentence patterns (possessive, passive, copular,
// "Email: x") is turned into one. [Compare] asks whether two sequences are equal,
// token by token and in order, and then checks numbers, polarity, letter case and
// articles on what stood there before any rewording. Nothing is scored: there is
// no threshold to tune or to game.
//
// Doubt means [Different]. To miss a restatement costs one derived row, which
// the lineage ties to its source and which raises nothing; to merge two claims
// loses one of them, and the survivor may be the wrong one. So this is left
// apart on purpose:
//
//   - other verbs: likes and loves, uses and prefers, should and must, plans and intends;
//   - an added or a dropped "currently", "usually", "very", "the only";
//   - a changed unit ("60 seconds", "1 minute") or an ambiguous date (03/04/2025), or clock time (9:30);
//   - more than one sentence in another order, and texts of more than 2,000 bytes,
//     which only match themselves;
//   - category nouns ("prefers Vim", "preferred editor is Vim") outside the closed table;
//   - words that are a name with a capital and a word without (apple, polish);
//   - scripts other than ASCII, word by word: they compare exactly, and text with
//     hidden characters or broken UTF-8 matches itself only.
//
// Two liberties are taken since loops take them all the time: a note without
// subject ("Prefers Vim", "Email: x") speaks of the user, and a restatement may
// add that the user said so. It may not add that anybody confirmed it, and a
// row that reports what the user said is not restated by the bare claim.
//
// Not caught: free paraphrase ("is in charge of" for "manages"), and every
// language but English beyond equal words.
package restate
