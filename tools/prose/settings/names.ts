import type { Term } from '../rules/words.ts';

/**
 * The private words of identifiers and file names. They are read word by word: `lookAtHost` is "look at host". Words of another
 * program that the code reads or writes stay, such as `holderIdentity` of a Lease.
 */
export const nameTerms: readonly Term[] = [
  ['(?:look|looks|looked|looking)(?! up)', '"sync", "check" or "read"'],
  ['ways?', '"mode", "path" or "method"'],
  ['fights?|fighting|contested|rivals?', '"conflict"'],
  ['say|says|said|saying|sayers?|tells?|told|untold|telling', '"report" or "notify"'],
  ['hears?|heard|hearing', '"receive", "detect"; of VRIDs "foreign"'],
  ['worlds?', '"ClusterView", "snapshot"'],
  ['standings?|stands?|stood', '"status", "validity"'],
  ['witness(?:es)?|doubts?|doubted|undoubted|suspect(?:s|ed)?', '"corroborated", "uncorroborated"'],
  ['patience|patient', '"grace period", "low priority"'],
  ['newcomers?|leavers?|departures?|meets?|sight', '"unlisted", "initial state"'],
  ['claims?|claimed|claimers?', '"allocation"; of a lock "owner"'],
  // SomeKeptBack is a published reason.
  ['(?<!some )(?:kept|held) back', '"excluded", "reserved"'],
  ['(?<!(?:vip|seat|link|lease) )holders?(?! identity)', '"VIP holder", "seat holder"; of a lock "owner"'],
  ['silences?|silent', '"unanswered", "unresponsive"'],
  ['wish(?:es|ed)?', '"requested", "options"'],
  ['pardon(?:s|ed)?|forgive[sn]?', '"grace period"'],
  ['edges?', '"entry rule"'],
  ['ours', '"own"'],
  ['strangers?', '"foreign", "unknown"'],
  ['mends?|mended|heals?', '"repair"'],
  ['anew|afresh', '"again"'],
  ['beside', '"peers", "with"'],
  ['heed(?:s|ed)?', '"follow"'],
];

/** A word is private where it is a message or a report, and not where a text consists of words. */
export const textTerm: Term = [
  '(?<!(?:quote|quote unit|shell|split|first|next) )words?(?! count)',
  '"message", "report" or "text"',
];

/** The files that read or write a text word by word. */
export const textReaders: readonly string[] = [
  'cli/{command,completion,output,program,table}.ts',
  'cli/{commands,device,doctor,manifest}/**',
  'devices/**',
  'lib/{keepalived,iptables}/**',
  'lib/text.ts',
];
