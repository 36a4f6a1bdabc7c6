/**
 * What is true of the masters after everything that was done to them: the oracle's own knowledge. Pure, and nothing in it
 * is asked of vipnat.
 */

/** How one master stands. */
export interface MasterState {
  readonly name: string;
  readonly hasPower: boolean;
  readonly isLinked: boolean;
  readonly etcd: 'running' | 'frozen' | 'dead';
  /** `leaving`: told to end; it takes no new connections, and serves open ones on for a while. */
  readonly apiserver: 'running' | 'frozen' | 'leaving' | 'dead';
  /** Whether a firewall on it drops what the other masters send to its apiserver. */
  readonly isBlackholed: boolean;
  readonly hasKeepalived: boolean;
}

/** A master on which all is well. */
export function soundMaster(name: string): MasterState {
  return {
    ...{ name, hasPower: true, isLinked: true, isBlackholed: false, hasKeepalived: true },
    ...{ etcd: 'running', apiserver: 'running' },
  };
}

/** Something that brings a master back, in part. */
export interface Remedy {
  readonly master: string;
  readonly kind: 'power' | 'link' | 'etcd' | 'apiserver' | 'blackhole' | 'keepalived';
}

/** Whether others reach a master at all. */
export function isReachable({ hasPower, isLinked }: MasterState): boolean {
  return hasPower && isLinked;
}

/** Whether etcd takes writes: two of three members see each other. */
export function hasQuorum(masters: readonly MasterState[]): boolean {
  return masters.filter((master) => isReachable(master) && master.etcd === 'running').length >= 2;
}

/** The masters whose apiserver new connections shall go to, as another host, or one of their own, sees them. */
export function listUsable(masters: readonly MasterState[], from: string | null = null): string[] {
  if (!hasQuorum(masters)) return [];
  return masters
    .filter((master) => isReachable(master) && master.etcd === 'running' && master.apiserver === 'running')
    .filter(({ name, isBlackholed }) => !isBlackholed || name === from)
    .map(({ name }) => name);
}

/** How a master stands after a remedy. */
export function remedy(master: MasterState, { kind }: Remedy): MasterState {
  switch (kind) {
    case 'power':
      return soundMaster(master.name);
    case 'link':
      return { ...master, isLinked: true };
    case 'etcd':
      return { ...master, etcd: 'running' };
    case 'apiserver':
      return { ...master, apiserver: 'running' };
    case 'blackhole':
      return { ...master, isBlackholed: false };
    case 'keepalived':
      return { ...master, hasKeepalived: true };
  }
}

/** All that is needed to make everything run again, in the order in which it is done. */
export function listRemedies(master: MasterState): Remedy[] {
  const { name, hasPower, isLinked, etcd, apiserver, isBlackholed, hasKeepalived } = master;
  const needed: [boolean, Remedy['kind']][] = hasPower
    ? [
        [!isLinked, 'link'],
        [etcd !== 'running', 'etcd'],
        [isBlackholed, 'blackhole'],
        [apiserver !== 'running', 'apiserver'],
        [!hasKeepalived, 'keepalived'],
      ]
    : [[true, 'power']];
  return needed.filter(([isNeeded]) => isNeeded).map(([, kind]) => ({ master: name, kind }));
}

/** What no agent could make up for, tried in this order. */
const needs: readonly {
  readonly isMet: (masters: readonly MasterState[]) => boolean;
  readonly kinds: readonly Remedy['kind'][];
}[] = [
  { isMet: hasQuorum, kinds: ['power', 'link', 'etcd'] },
  // Two of three that fall silent at once cannot be told from one's own cable (docs/adr/0010).
  { isMet: areTwoHeard, kinds: ['power', 'link', 'blackhole'] },
  { isMet: isOneUsable, kinds: ['power', 'link', 'etcd', 'blackhole', 'apiserver'] },
  { isMet: canHoldVip, kinds: ['power', 'link', 'keepalived'] },
];

/**
 * The fewest things, from the first master on, that have to be mended so that anybody could serve: a majority of etcd, two hosts
 * that are heard, one apiserver, one keepalived where the VIP can be held. Everything else stays as it is.
 */
export function planRemedies(masters: readonly MasterState[]): Remedy[] {
  const remedies: Remedy[] = [];
  let current = masters;
  for (const { isMet, kinds } of needs) {
    while (!isMet(current)) {
      const next = current.flatMap(listRemedies).find(({ kind }) => kinds.includes(kind));
      if (next === undefined) break;
      remedies.push(next);
      current = current.map((one) => (one.name === next.master ? remedy(one, next) : one));
    }
  }
  return remedies;
}

function areTwoHeard(masters: readonly MasterState[]): boolean {
  return masters.filter((master) => isReachable(master) && !master.isBlackholed).length >= 2;
}

function isOneUsable(masters: readonly MasterState[]): boolean {
  return listUsable(masters).length > 0;
}

/** A frozen apiserver on the holder is no reason to move; a host that nobody reaches can hold nothing. */
function canHoldVip(masters: readonly MasterState[]): boolean {
  return masters.some((master) => isReachable(master) && master.hasKeepalived);
}
