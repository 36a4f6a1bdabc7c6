import type { Term } from '../rules/words.ts';

const actor = 'who it is: "the operator", "another program", "any process that …"';
const noun = 'the noun again';
const plain = 'a plain verb';

/** vipnat's own terms: one word for one thing. */
const ownTerms: readonly Term[] = [
  ['ways?', '"balancing mode"; for kube-proxy "proxy mode"; else "path", "method", "how to"'],
  [
    '(?:an?|the|each|every|any|one|two|first|next|last|same|complete|whole|per|of|by|between|after|before|this|that) looks?',
    '"sync" (the agent), "check" (a command)',
  ],
  [
    'looks?(?= (?:took|takes|succeed|succeeded|found|that|for|begins?))',
    '"sync" (the agent), "check" (a command)',
  ],
  ["(?<!\\b(?:VIP|VIP's|seat) )holders?", '"VIP holder", "seat holder"'],
  ['edges?', '"rule that leads to kube-proxy\'s chain"'],
  ['fights?|fighting', '"rule conflict"'],
  ['ours?', '"vipnat\'s"'],
  ["strangers?|(?:of|by|from) others|others'", '"other software", or its name'],
  ['walks?', '"fault sequence"'],
  ['stand-ins?', '"simulator"'],
  ['worlds?', '"model state"'],
  ['holes?', '"vulnerability"'],
  ['(?:does|do) not forward|forwards nothing', '"IP forwarding is off"'],
  ['brown-outs?', '"partial outage"'],
];

/** Words that have to be read twice. */
const everydayTerms: readonly Term[] = [
  ['told', '"reported", "configured", "distinguished"'],
  ['beside', '"next to", "compared with", "besides"'],
  ['anew|afresh', '"again"'],
  ['on end', '"in a row"'],
  ['(?:does|do|is|are) well', '"is healthy", "is ready"'],
  ['at once', '"immediately", or "at the same time"'],
  ['by chance', '"at random"'],
  ['in vain', '"without success"'],
  ['as (?:it|they) should be', '"correct", "as expected"'],
  ['mends?|mended|heals?', '"fixes" (a person), "repairs" (the agent)'],
  ['(?:goes|go|went|going) on', '"continues"'],
  ['stands?(?! for)|stood', '"is", "is printed"'],
  ['loud', '"visible"'],
  ['lest|wherein|thereby|hence|hereby|thereof', 'a plain word'],
  ['(?:is|are|was|were|be) left to', 'who handles it'],
  ['in use for want of', '"because no other … is ready"'],
];

/** Idioms, and things that act as people do. */
const figures: readonly Term[] = [
  ['silences?|silent', '"does not answer"'],
  ['without a word', 'what is missing: "without closing its connections"'],
  ["(?:own|last|'s) word|words? of (?:it|them)", '"report", "answer"'],
  ['witness(?:es)?', '"confirmation by another host"'],
  ['patience|patient', '"time limit"'],
  ['pardon(?:s|ed)?|forgive[sn]?', '"grace period"'],
  ['makes? way|sleeve|takes? (?:\\S+ ){1,3}along|(?:does|do) without|make do|puts? right', plain],
  ['hears?|heard|hearing', '"receives", "detects", "learns"'],
  ['newcomers?|leavers?|first sight', '"new", "no longer listed", "initial state"'],
  ['doubts?|doubted|undoubted', '"uncorroborated", "not confirmed"'],
  ['rivals?|contested', '"conflict"'],
  ['standings?', '"status", "validity"'],
  ['kept back', '"excluded", "reserved"'],
  ['heed(?:s|ed)?', '"obeys", "follows"'],
  ['wish(?:es|ed)?', '"requests", "needs"'],
];

/** Pronouns that are far from their nouns, and clauses inside clauses. */
const grammar: readonly Term[] = [
  ['some(?:body|one)|any(?:body|one)|nobody|no one|whoever', actor],
  [
    'those (?:that|of|which|who|whose|in|with|from|for|on|by)|(?:the )?ones? (?:that|who|which|whose)|that of|that which',
    noun,
  ],
  ['(?:all|none|each|any|both|most|half|neither|either|some|two) of (?:them|these|those|it)', noun],
  ['that (?:[^\\s.]+ ){1,2}that', 'two sentences, or fewer clauses'],
  ['which is (?:when|what|why|where|how)', 'two sentences'],
  ['(?<!\\bthere )(?:is|are|was|were) no(?! longer| more)', '"is not a …"'],
  ['counts? that', 'the noun next to its clause'],
  ['only (?:\\S+ ){1,6}(?:is|are|does|do) not', 'what works, then what does not'],
];

/** The words that a reader has to guess at: comments do without them, too. */
export const privateTerms: readonly Term[] = [...ownTerms, ...everydayTerms, ...figures];

/** All of them. */
export const terms: readonly Term[] = [...privateTerms, ...grammar];
