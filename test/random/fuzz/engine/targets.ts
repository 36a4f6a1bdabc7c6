/** What is fuzzed: how often with `--long` (without, a tenth of it), what the inputs begin as, and what must hold for each. */
interface TargetRow {
  readonly cases: number;
  /** What is mutated or generated. */
  readonly from: string;
  /** Beside that nothing else is thrown than a coded error, and nothing takes more than a second. */
  readonly holds: string;
}

/** Every target by its name, as failures and counts print it. */
export const targets = {
  'iptables-save, mutated': {
    cases: 40000,
    from: 'saves of both backends',
    holds: 'a value or a coded error; no backend or ClusterIP that the text does not hold',
  },
  'iptables-save, generated': {
    cases: 15000,
    from: 'tables of odd rules, chains and comments',
    holds: 'read as printed',
  },
  'iptables rules': {
    cases: 120000,
    from: 'rules of the captures, and odd ones',
    holds: 'taken apart with nothing lost or added',
  },
  'a review of a new pod': {
    cases: 20000,
    from: 'reviews as API servers send them, with faults',
    holds: 'no answer, or one that allows the pod and only adds a gate and pauses',
  },
  'nft table, mutated': {
    cases: 35000,
    from: 'our own table as nft 0.9, 1.0 and 1.1 print it',
    holds: 'a value or a coded error; no backend that the text does not hold',
  },
  'nft table, rendered': {
    cases: 8000,
    from: 'tables over up to five backends',
    holds: 'read as rendered, with the same backends',
  },
  'nft rules': {
    cases: 100000,
    from: 'rules of the captures',
    holds: 'a meaning, the same in both directions',
  },
  'nft JSON, as text': {
    cases: 8000,
    from: "kube-proxy's objects as nft -j prints them",
    holds: 'objects or a coded error',
  },
  'nft JSON, as objects': {
    cases: 8000,
    from: 'the same, with faults in what they say',
    holds: 'no backend, ClusterIP or time that they do not hold',
  },
  '/proc/net/ip_vs, mutated': {
    cases: 60000,
    from: 'captures',
    holds: 'a value or a coded error; no real server that the text does not hold',
  },
  '/proc/net/ip_vs, generated': {
    cases: 20000,
    from: 'virtual servers of every protocol and family',
    holds: 'read as printed',
  },
  tcpdump: {
    cases: 50000,
    from: 'captures of VRRP 2 and 3',
    holds: 'adverts whose addresses are addresses',
  },
  '/proc/net/tcp': {
    cases: 60000,
    from: 'both files',
    holds: 'listeners with addresses and ports',
  },
  'netlink connections': {
    cases: 40000,
    from: 'connections of both families',
    holds: 'connections between endpoints that the bytes hold, and keys with a tuple',
  },
  'netlink datagrams': {
    cases: 100000,
    from: 'addresses, links, generation, refusal',
    holds: 'messages and attributes within the bytes, and no more of them than there is room for',
  },
  'netlink answers': {
    cases: 40000,
    from: 'the same',
    holds: 'addresses that the bytes hold, or a coded error',
  },
  'netlink routes': {
    cases: 40000,
    from: 'local routes, the route to everywhere, addresses and links in one answer',
    holds: 'routes to addresses that the bytes hold, through interfaces that they name, or a coded error',
  },
  'EndpointSlices and Service, listed': {
    cases: 12000,
    from: 'lists of kube-apiserver',
    holds: 'no address that is not in them; refusals are lines',
  },
  'watch events': {
    cases: 12000,
    from: 'events in pieces of any length',
    holds: 'what is known stays a list of at most 100',
  },
  '/readyz and Status': {
    cases: 60000,
    from: 'answers of kube-apiserver',
    holds: 'a state and a line',
  },
  'answers of the abstract socket': {
    cases: 15000,
    from: 'what an agent answers',
    holds: 'no address, time or line that is none',
  },
  'state file': {
    cases: 20000,
    from: 'files of any endpoints',
    holds: 'what was saved, or a phrase',
  },
  YAML: {
    cases: 6000,
    from: 'configuration files',
    holds: 'settings of options, or problems of one line',
  },
  'flags and variables': {
    cases: 3000,
    from: 'options in the environment and on the command line',
    holds: 'addresses that were given; its own flags give the same configuration',
  },
  'YAML and checks': {
    cases: 3000,
    from: 'files of options with any values',
    holds: 'settings of options only',
  },
  'shell words': {
    cases: 60000,
    from: 'words that mean something to a shell',
    holds: 'the same words to bash, and no control character',
  },
  'addresses and endpoints': {
    cases: 100000,
    from: 'addresses and ports in all forms',
    holds: 'canonical, and read again as the same',
  },
  'scripts of odd hosts': {
    cases: 8000,
    from: 'all that is read of a host, configurations, answers',
    holds: 'each line of each script, and each command to be pasted, of a strict grammar',
  },
  'arguments of tools': {
    cases: 40000,
    from: 'endpoints and names',
    holds: 'words of a strict grammar',
  },
  'keepalived.conf, rendered': {
    cases: 10000,
    from: 'options, host names, interfaces',
    holds: 'lines of a strict grammar; read as it was meant',
  },
  'seats, rendered': {
    cases: 10000,
    from: "pools, virtual IPs and interfaces with others' texts in them",
    holds: "lines of a strict grammar; no address twice, and none of the host's own",
  },
  'annotations of pools and Leases': {
    cases: 20000,
    from: 'annotations as vipnat writes them',
    holds: 'a value of what the text holds, or none',
  },
  'keepalived.conf and notices': {
    cases: 60000,
    from: 'configurations, lines of the pipe, command lines',
    holds: 'numbers, peers and paths that are in it',
  },
  manifests: {
    cases: 200,
    from: 'options of vipnat manifest',
    holds: 'YAML of known kinds',
  },
  status: {
    cases: 3000,
    from: 'odd hosts',
    holds: 'no control character, and JSON that reads',
  },
  doctor: {
    cases: 5000,
    from: 'odd names of files, processes, tables',
    holds: 'no control character; remedies are words to a shell',
  },
  'log, errors and events': {
    cases: 20000,
    from: 'words',
    holds: 'lines without control characters',
  },
  metrics: {
    cases: 1500,
    from: 'labels',
    holds: 'one sample a line',
  },
  'hostile questions to --listen': {
    cases: 2000,
    from: 'bytes that were HTTP',
    holds: 'an answer or the end of the connection; the next question is answered',
  },
  'hostile answers on this host': {
    cases: 2000,
    from: 'bytes that were HTTP',
    holds: 'a value or null, within the limit',
  },
} as const satisfies Readonly<Record<string, TargetRow>>;

/** One of them. */
export type TargetName = keyof typeof targets;
